"""The smoke job by torchrun on three hosts: a rank is killed on the way."""

from __future__ import annotations

from support.journeys import check
from support.smoke_job import continuation, smoke_and_kill


def torchrun_goes_on_after_a_killed_rank() -> list[str]:
    """torchrun starts a rank on each host, and the job continues from its checkpoint when one is killed."""
    results = smoke_and_kill("torchrun", launcher="torchrun")
    # torchrun cannot start ranks with MPI, which is what the stack would take.
    check(results["backend"] == "gloo", f"backend {results['backend']}")
    return [f"smoke job started by torchrun on 3 hosts, rank 1 killed: {continuation(results)}"]
