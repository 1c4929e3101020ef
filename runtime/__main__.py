"""The collection's programs on hosts: python -S RUNTIME COMMAND [WORD ...]

start DIRECTORY supervise       start the job that the standard input describes, on all of its hosts
submit DIRECTORY                submit the job that the standard input describes to Slurm, from its login host
allocation DIRECTORY            plan and supervise the job in a directory in its Slurm job, as its batch script
answer DIRECTORY                write what that plan needs of this node
status [JOB]                    the status of all jobs that were started from this host, or of one
log JOB, results JOB            the log of a job, its results
wait JOB                        the results of a job, once it has ended
stop JOB                        stop a job: on all of its hosts if its supervisor runs, else here
                                (as JSON; with --text for a person)
place HOST                      write the job directory that the standard input describes on this host
restore DIRECTORY START         put back what a start has replaced that never began
ask MODULE                      answer as a module does, with the options in the standard input
rank SCRIPT [ARGUMENT ...]      become one rank of the job in the working directory
serve DIRECTORY start           start the server of this host for the model in a job directory, or replace its model
serve DIRECTORY supervise       be that server
supervise [OPTION] JOB ...      supervise the job in a directory on its head, or look at its part on this host
launch DIRECTORY UMASK supervise
                                run launch.sh of the job in a directory, as a child of its supervisor
exchange                        exchange messages with the other hosts of the job in the working directory
pod ACTION ...                  run a pod's part of a job
check                           end with 0 where the files are those of the archive's name
install DIRECTORY               unpack the archive that runs this
compile DIRECTORY               compile the modules of the archive that runs this, before it is renamed to that
"""

from __future__ import annotations

import importlib
import sys

LIBRARY = "ansible_collections.amx.cluster.plugins.module_utils"
COMMANDS = {
    "rank": "amx_cluster.rank",
    "supervise": f"{LIBRARY}._jobs.supervisor",
    "launch": f"{LIBRARY}._jobs.launching",
    "allocation": f"{LIBRARY}._jobs.slurm.allocation",
    "exchange": "amx_cluster.exchange_ranks",
    "serve": f"{LIBRARY}._jobs.servers.host_server",
    "pod": f"{LIBRARY}._kubernetes.pod.main",
}

# Commands about jobs that print JSON.
JOBS = ("start", "submit", "answer", "status", "stop", "log", "results", "wait", "place", "restore", "ask")


def main() -> None:
    command, words = "".join(sys.argv[1:2]), sys.argv[2:]
    if command in ("check", "install", "compile"):
        importlib.import_module(f"{LIBRARY}._jobs.archive").main([command, *words])
    elif command in JOBS:
        importlib.import_module(f"{LIBRARY}._jobs.commands").main(sys.argv[1:])
    elif command in COMMANDS:
        importlib.import_module(COMMANDS[command]).main(words)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
