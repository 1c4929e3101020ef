"""See from within a rank, without a change to its script, how the job goes. docs/watching.md has what follows from it.

sitecustomize.py starts this in the process that rank.py became, and in no other: what that process starts or forks
does not speak for the rank, but the processor time that it uses counts as the rank's.

| module | what it does |
|---|---|
| observer | begins, and watches the modules that a script imports |
| rank | who this process is, and what it writes into the job directory |
| heartbeat, connection | a message to the job's supervisor every two seconds |
| activity | when the rank last made progress, and whether it waits for others |
| usage, places | what the rank uses of its host, and where its script is |
| group | the group of all ranks: world.json, and a training without the group is refused |
| gradients, backward | whether ranks train one model, and when a backward pass waits for them |
| trainer, saving | transformers' Trainer: progress.json, the marks of checkpoints |
| timers, timing | where the time of steps goes, in a job that is to be measured |
| failures | what ends a rank is printed in one piece, with its rank and host |
| profiling | where the time of steps goes by kind of operation |
| sharding | the Trainer shards its model over the ranks |
| notices | a notice that the host is taken back, and the checkpoint before it goes |

_jobs/wire.py has what ranks and supervisor exchange.

Whatever goes wrong in here must not become the script's error. All that is needed of the environment is read at the
start: it belongs to the script afterwards.
"""

from __future__ import annotations

from typing import Any

# The observer.Observer of this process, where it is a rank: programs of the collection report to it.
observer: Any = None
