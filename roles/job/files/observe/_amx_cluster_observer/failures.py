"""Print what ends a rank in one piece, so that other ranks' words do not stand in between."""

from __future__ import annotations

import contextlib
import difflib
import sys
import traceback
from typing import Any

from _amx_cluster_observer.rank import Rank


class Failures:
    """The failures of a rank."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank

    def show(self, text: str) -> None:
        """Print lines that tell why this rank ends."""
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        # Not sys.stderr: torch's own hook around this one puts "[rank1]: " before every line of it.
        stream = sys.__stderr__ or sys.stderr
        number = self.rank.number
        stream.write(f"--- rank {number} on {self.rank.host} failed ---\n{text}--- end of rank {number} ---\n")
        stream.flush()

    def excepthook(self, kind: Any, error: BaseException, trace: Any) -> None:
        """Print an exception that ends this rank; those of other processes as Python does."""
        if self.rank.speaks():
            self.show("".join(traceback.format_exception(kind, error, trace)))
        else:
            sys.__excepthook__(kind, error, trace)

    def watch_arguments(self, argparse: Any) -> None:
        """Have a parser that refuses the script's arguments say so in one piece, without the usage of all of them.

        A script of the Trainer's has some 200 arguments, and every rank would print them.
        """
        original = argparse.ArgumentParser.error
        failures = self

        def error(self: Any, message: str) -> None:
            if not failures.rank.speaks():
                original(self, message)
            known = [word for action in self._actions for word in action.option_strings]
            wrong = [word for word in message.replace(":", " ").split() if word.startswith("--") and word not in known]
            meant = [near for word in wrong for near in difflib.get_close_matches(word, known, n=1, cutoff=0.8)]
            hints = "".join(f" (did you mean {near}?)" for near in meant)
            failures.show(f"{self.prog}: error: {message}{hints}\n")
            self.exit(2)

        argparse.ArgumentParser.error = error
