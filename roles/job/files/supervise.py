"""Supervise the job in a directory on its head, with the logic that the directory brings along.

python -S supervise.py JOB_DIRECTORY [START]    starts the job, in a session of its own
python -S supervise.py --reap JOB_DIRECTORY     ends the job's orphaned processes on this host
python -S supervise.py --launch JOB_DIRECTORY UMASK     runs its launch.sh, for the supervisor
python -S supervise.py --ranks JOB_DIRECTORY ATTEMPT    prints which of its ranks on this host have ended, and how
python -S supervise.py --usage JOB_DIRECTORY    prints how many processors its ranks on this host keep busy
python -S supervise.py --parts JOB_DIRECTORY [START]    prints what this host has of checkpoints
python -S supervise.py --unmark JOB_DIRECTORY STEP      takes the marks from checkpoints of later steps
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
from ansible_collections.amx.cluster.plugins.module_utils._jobs import supervisor

if __name__ == "__main__":
    supervisor.main(sys.argv[1:])
