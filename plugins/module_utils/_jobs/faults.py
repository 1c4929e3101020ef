# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons for the end of a job: from its log, from what its ranks reported, and from which hosts answer."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem
from ansible_collections.amx.cluster.plugins.module_utils._jobs import progress
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import DEFAULT
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import Killed
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import CUT_OFF
from ansible_collections.amx.cluster.plugins.module_utils._screen import ESCAPE

# What ranks say when another one has gone: never the cause.
CONSEQUENCES = re.compile(
    r"Connection (closed|reset)|closed by peer|Broken pipe|Connection refused|Timed out waiting|recvValue failed|"
    r"Rank \d+ is not connected|DistNetworkError|NCCL|Gloo connectFullMesh failed",
    re.IGNORECASE,
)
# With what torchrun begins to report the end of a rank.
TORCHRUN_REPORTS = re.compile(
    r"^[EW]\d{4} .*torch/distributed/elastic/.* (failed \(exitcode|Sending process)", re.MULTILINE
)
# Signals by which a process ends because of what it does itself.
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP}
# Seconds without a heartbeat, where one comes every two, after which it is asked for on its host what a rank does, and
# after which its process seems to be stopped.
LATE, MUTE = 5, 10
# Seconds that a process may take to end when its script has: all that was imported is taken down.
ENDING = 60
# How the safetensors library (0.8) refuses a file that is incomplete or of another format, whatever its reason.
NOT_SAFETENSORS = "SafetensorError: Error while deserializing header"
# Optimizer steps that each rank has made outside of any group, after which that is worth a note.
MANY = 100


@dataclass(frozen=True)
class Failure:
    """The end of a rank, as it was reported. Failures of an attempt are in the order in which their reports came.

    text: what ended its script, as it was printed. code: its exit code, or the negative number of a signal; None while
    it has not ended. said: the last line that it has printed on stderr.
    """

    rank: int
    host: str
    text: str = ""
    code: int | None = None
    said: str = ""

    def is_cause(self) -> bool:
        """Return whether the failure may be what has ended the other ranks."""
        if self.text or self.said:
            return not CONSEQUENCES.search(last_words(self.text) or self.said)
        return self.code not in (None, 0, CUT_OFF)

    def describe(self) -> str:
        """Return which rank has ended how."""
        where = f"rank {self.rank} on {self.host}"
        if self.text:
            message = last_words(self.text)
            if NOT_SAFETENSORS in message:
                message += (
                    "; a file of weights is incomplete, or a pointer of git-lfs: copy the model again, or run "
                    "`git lfs pull` where it was cloned"
                )
            return f"{where} failed: {message}"
        code = self.code or 0
        if -code in CRASHES:
            return f"{where} was ended by signal {-code} ({signal.Signals(-code).name})"
        if code < 0:
            return f"{where} was ended by signal {-code} from outside"
        return f"{where} ended with exit code {code}" + (
            f"; the last that it printed: {plain(self.said)}" if self.said else ""
        )


def tracebacks(log: str) -> list[tuple[int, str, str]]:
    """Return what ended each rank, from a log, in their order: (rank, host, text).

    What a rank printed before it was not its end: the script went on after its arguments were refused, perhaps.
    """
    last: dict[int, tuple[int, str, str]] = {}
    for match in progress.FAILURE.finditer(log):
        rank = int(match[1])
        last.pop(rank, None)
        last[rank] = (rank, match[2], match[3].strip())
    return list(last.values())


def last_words(trace: str) -> str:
    """Return the message of a traceback: what follows its last frame, the first line at the margin and all after it."""
    if "---------------- 1 ----------------" in trace:  # each group in it has a margin of its own
        inside = [line.lstrip(" |+") for line in trace.splitlines() if re.match(r" *[|] \S", line)]
        return plain("; ".join(line for line in inside if line and "Traceback (" not in line))
    lines = trace.splitlines()
    frames = [place for place, line in enumerate(lines) if line.startswith(("Traceback (", '  File "'))]
    after = lines[frames[-1] + 1 :] if frames else lines
    starts = [place for place, line in enumerate(after) if line and not line[0].isspace()]
    return plain(" ".join(after[starts[0] :])) if starts else ""


def plain(text: str, most: int = 500) -> str:
    """Return a text of a script as one line for any screen: without colours, half characters, and moves of a cursor."""
    shown = "".join(letter if letter.isprintable() else " " for letter in ESCAPE.sub("", text))
    return " ".join(shown.split())[:most]


def hosts_gone(gone: Mapping[str, str]) -> str:
    """Return which hosts do not answer any more, {host: why}; an empty string when there is none."""
    return "; ".join(f"{host} does not answer any more ({why})" for host, why in gone.items())


def cause(
    log: str,
    code: int,
    gone: Mapping[str, str],
    out_of_memory: Sequence[str],
    launcher: str = DEFAULT,
    killed: Killed | None = None,
    failures: Sequence[Failure] = (),
) -> str:
    """Return why the launcher ended with `code`.

    log: what this attempt printed. gone: {host: why} of hosts that do not answer any more. out_of_memory: hosts whose
    kernel has ended a process because it was out of memory since the attempt began. killed: the rank that the launcher
    reports as ended by a signal. failures: what ranks have reported. A host that is gone explains what the other ranks
    print, and a rank that was killed does, too; among tracebacks, those of lost connections are passed over where there
    is another.
    """
    if gone:
        return hosts_gone(gone)
    traces = tracebacks(log)
    # What is in the log alone was reported by none: its rank did not reach the supervisor.
    reported = {failure.rank for failure in failures}
    logged = [Failure(rank, host, text) for rank, host, text in traces if rank not in reported]
    first = next((failure for failure in [*failures, *logged] if failure.is_cause()), None)
    ended_by = -code if code < 0 else code - 128 if 128 < code <= 192 else 0  # as subprocess and shells report it
    if first and not first.text and first.code in (-signal.SIGTERM, -signal.SIGKILL) and (killed or ended_by):
        first = None  # it was ended with the others
    if ended_by and killed and killed.signal == signal.SIGTERM:
        killed = None  # when the launcher had ended, so were its ranks
    if first is None and killed:
        first = Failure(killed.rank, killed.host, code=-killed.signal)
    # The kernel's out-of-memory killer sends signal 9 and no other.
    if out_of_memory and (first is None or first.code == -signal.SIGKILL):
        # Containers share their machine's count: the rank that was killed tells which of them it was.
        where = [host for host in out_of_memory if first and first.host == host] or out_of_memory
        return (
            f"the kernel of {', '.join(where)} ended a rank because it was out of memory: use a smaller batch, shorter "
            "sequences, fewer ranks per node, or gradient checkpointing"
        )
    line = _last_line(log)
    if first:
        silent = not first.text and not first.said and ((first.code or 0) > 0 or -(first.code or 0) in CRASHES)
        return first.describe() + (f"; the last line of the job's log: {line}" if silent and line else "")
    if ended_by == signal.SIGPIPE:
        return f"{launcher} lost its own process on one of the hosts, which was ended there (signal 13)"
    if ended_by:
        return f"{launcher} was ended by signal {ended_by} from outside"
    failure = next((failure for failure in [*failures, *logged] if failure.text or failure.said), None)
    if failure:
        return failure.describe()
    last = f"; the last line of its log: {line}" if line else " and printed nothing"
    return f"{launcher} ended with exit code {code}{last}"


def _last_line(log: str) -> str:
    """Return the last line that says something: not of what launchers draw and report, and not what rank.py notes."""
    lines = (line.strip() for line in reversed(TORCHRUN_REPORTS.split(log, maxsplit=1)[0].splitlines()))
    return plain(next((line for line in lines if line and not line.startswith(("=", "rank.py: rank "))), ""))


def suspects(beats: Mapping[int, Mapping[str, Any]]) -> list[int]:
    """Return the ranks of which only their host can say whether they are at work.

    Those that do not wait for others: what they told may be some seconds old. And those whose heartbeat is late, or
    never came: their process is stopped, or waits for a disk, or holds Python's lock within one long call.
    """
    return sorted(
        rank
        for rank, beat in beats.items()
        if not beat.get("ended") and (not beat.get("waiting") or beat["silent"] > LATE)
    )


def stall(beats: Mapping[int, Mapping[str, Any]], patience: float) -> str:
    """Return which rank holds up the others; an empty string while any of them makes progress.

    beats: the last heartbeat of each rank: {rank: {host, idle (seconds since it had made progress when it sent that,
    docs/watching.md says what that is), silent (seconds since it was received, or since the launch where none was),
    missing (whether none was), stepped (whether it has made a step),
    waiting (whether it was waiting for other ranks), ended (whether its script has), stack}}.
    """
    running = {rank: beat for rank, beat in beats.items() if not beat.get("ended")}
    # The end of a rank's script is progress, too: the others may have waited for it, and tell what they do since later.
    idle = [float(beat["silent"]) + (0 if beat.get("ended") else float(beat["idle"])) for beat in beats.values()]
    if not running:
        silent = [float(beat["silent"]) for beat in beats.values()]
        if not silent or min(silent) < patience + ENDING:
            return ""
        return f"every rank's script ended {min(silent):.0f} s ago, and their processes have not"
    if min(idle) < patience:
        return ""
    mute = {rank: beat for rank, beat in running.items() if beat["silent"] > MUTE}
    guilty = mute or {rank: beat for rank, beat in running.items() if not beat.get("waiting")}
    stepped = any(beat.get("stepped") for beat in beats.values())
    progress = "made a step or done any other work" if stepped else "done any work on its way to the first step"
    sentences = [f"no rank has {progress} for {min(idle):.0f} s"]
    for rank, beat in sorted((guilty or running).items())[:3]:
        where = f"rank {rank} on {beat['host']}"
        if beat.get("missing"):
            sentences.append(
                f"{where} has told nothing since it was started {beat['silent']:.0f} s ago, and uses no processor: see "
                f"whether {beat['host']} can read the virtual environment and the job directory (a network file system "
                "that hangs), and whether an earlier run is still there (playbooks/status.yml)"
            )
        elif mute:
            sentences.append(f"{where} has told nothing for {beat['silent']:.0f} s, as if it were stopped")
        elif guilty:
            sentences.append(f"{where} is here, and the others wait for it:\n{beat.get('stack', '').rstrip()}")
        else:
            sentences.append(f"{where} waits for the others, and they for it:\n{beat.get('stack', '').rstrip()}")
    return "\n".join(sentences)


def of_script(text: str, code: int) -> str:
    """Return why a script that is no rank ended with `code`: its last words, from what it printed, and how it ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = last_words(text) if "Traceback (most recent call last)" in text else plain("".join(lines[-1:]))
    how = f"it was ended by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{words} ({how})" if words else how


def disks(log: str, full: Sequence[str], directory: str, host: str) -> str:
    """Return what to add to the reason of a failure where a disk was full; an empty string where nothing tells of that.

    log: what was printed. full: hosts that have no room now. host: which it is, where no rank's end tells.
    """
    reason = full_disks(full, directory)
    if reason:
        return reason
    for _rank, where, text in tracebacks(log):
        if problem := disk_problem(last_words(text), where, directory):
            return f"; {problem}, or save less (save_total_limit)"
    ended = bool(tracebacks(log))
    problem = "" if ended else disk_problem("\n".join(log.splitlines()[-50:]), host, directory)
    return f"; {problem}, or save less (save_total_limit)" if problem else ""


def full_disks(hosts: Sequence[str], directory: str) -> str:
    """Return what to add to the reason of a failure where hosts' disks are full; an empty string where none is."""
    if not hosts:
        return ""
    where = f"{directory} on {', '.join(hosts)}"
    return f"; the file system of {where} is full: free some of it, or save less (save_total_limit)"


def separate_models(beats: Mapping[int, Mapping[str, Any]], world_size: int) -> str:
    """Return the message that ranks of a group train models of their own; an empty string while nothing shows that.

    beats: the last heartbeat of each rank, {rank: {gradient: {step (which of the optimizer's steps), parameters (how
    many have one), sum, norm}, or None where it is none that has to be the same on all ranks}}. Gradients of different
    batches differ by about their norm; those of one model are the same but for rounding.
    """
    gradients = {rank: beat["gradient"] for rank, beat in beats.items() if beat.get("gradient")}
    if len(gradients) < world_size or world_size < 2:
        return ""
    if len({(gradient["step"], gradient["parameters"]) for gradient in gradients.values()}) > 1:
        return ""  # not the same step, or not of the same model: nothing to be compared
    sums = {rank: gradient["sum"] for rank, gradient in gradients.items()}
    scale = max(*(abs(total) for total in sums.values()), *(gradient["norm"] for gradient in gradients.values()))
    if max(sums.values()) - min(sums.values()) <= 1e-3 * scale:
        return ""
    return (
        "the ranks formed a group, but each trains a model of its own: the gradients of their first step differ (sums "
        f"{', '.join(f'{sums[rank]:.6g}' for rank in sorted(sums)[:4])}). The script must wrap its model in "
        "DistributedDataParallel; an evaluation before training can keep accelerate from doing so"
    )


def alone(beats: Mapping[int, Mapping[str, Any]], world_size: int) -> str:
    """Return the message that all ranks train outside of any group; an empty string while nothing shows that.

    beats: the last heartbeat of each rank, {rank: {alone (steps of an optimizer outside of any group), stepped (whether
    it has made one in a group)}}. It may be what the script does first, to fit something small: a note, no fault.
    """
    if world_size < 2 or len(beats) < world_size:
        return ""
    if any(beat.get("stepped") or beat.get("alone", 0) < MANY for beat in beats.values()):
        return ""
    return (
        f"each of the {world_size} ranks has made {MANY} steps of an optimizer and they have formed no group: if the "
        "script does not call torch.distributed.init_process_group later on, each trains a model of its own"
    )


def wrong_world(plan: Mapping[str, Any], world: Mapping[str, Any] | None) -> str:
    """Return how the group that formed differs from the one planned; an empty string when it does not.

    plan: plan.json. world: world.json, which rank 0 writes when the ranks have formed a group.
    """
    planned = {rank["rank"]: host["host"] for host in plan["hosts"] for rank in host["ranks"]}
    if len(planned) == 1:
        return ""
    if world is None:
        return (
            f"the {len(planned)} ranks formed no group: the script never called torch.distributed.init_process_group, "
            "so each rank would have trained a model of its own. What each framework needs: docs/own_train_py.md"
        )
    formed = {rank["rank"]: rank["host"] for rank in world["ranks"]}
    if formed != planned:
        return f"the ranks formed another group than planned: {formed} instead of {planned}"
    return ""


def missed(expect: Mapping[str, float], metrics: Mapping[str, Any], progress: Mapping[str, Any] | None = None) -> str:
    """Return which metric is below what the job expects of it, or why what ended well is no training; else "".

    progress: that of transformers' Trainer, None for what is no such training.
    """
    if progress is not None:
        if progress.get("max_steps") and not progress.get("step"):
            return (
                f"the training made none of its {progress['max_steps']} steps: are there fewer rows than a batch of "
                "all ranks?"
            )
        wrong = [name for name, value in metrics.items() if isinstance(value, float) and not math.isfinite(value)]
        if wrong:
            return (
                f"{wrong[0]} is {metrics[wrong[0]]}: the training ended in numbers that are not finite; try a lower "
                "learning_rate, and look for such numbers in the data"
            )
    for name, least in expect.items():
        if not isinstance(metrics.get(name), (int, float)):
            return f"the script reported no {name}, which the job expects to be at least {least:g}"
        if not metrics[name] >= least:
            return f"{name} is {metrics[name]:.4g} and the job expects at least {least:g}"
    return ""
