"""Print what ends a rank in one piece, so that other ranks' words do not stand in between."""

from __future__ import annotations

import atexit
import contextlib
import difflib
import io
import sys
import traceback
from collections.abc import Callable
from typing import Any

from amx_cluster.observer.rank import Rank


class Failures:
    """The failures of a rank.

    failed: what ends the rank, as it was printed. said: the last line that it has printed on stderr from Python. tell:
    is called when there is something in `failed`.
    """

    MOST = 4000  # characters that are reported

    def __init__(self, rank: Rank, tell: Callable[[], None] = lambda: None) -> None:
        self.rank, self.tell = rank, tell
        self.failed = self.said = ""

    def watch_stderr(self) -> None:
        """Remember the last line of stderr, and print in one piece the text with which SystemExit ends the rank.

        The interpreter itself prints that text, when no code of Python's runs any more.
        """
        stream = sys.stderr
        if not isinstance(stream, io.TextIOWrapper):
            return
        write, parts, watching = stream.write, [""], [True]
        atexit.register(watching.clear)  # what is printed later is of the interpreter's own end

        def remembering(text: str) -> int:
            if not self.rank.speaks():
                return write(text)
            with contextlib.suppress(Exception):
                if watching and text.strip() and sys._getframe().f_back is None:
                    watching.clear()
                    if not text.startswith(("Exception ignored", "Traceback")):
                        self.show(f"{text.rstrip()}\n")
                        vars(stream).update(write=len)  # the end of its line
                        return len(text)
                lines = (parts[0] + text[-self.MOST :]).replace("\r", "\n").split("\n")
                parts[0] = lines[-1][-self.MOST :]
                self.said = next((line.strip() for line in reversed(lines) if line.strip()), self.said)[-500:]
            return write(text)

        vars(stream).update(write=remembering)

    def show(self, text: str) -> None:
        """Print lines that tell why this rank ends, and report them."""
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        # Not sys.stderr: torch's own hook around this one puts "[rank1]: " before every line of it.
        half = self.MOST // 2  # the message may be long, and so may be what led to it
        self.failed = text if len(text) <= self.MOST else f"{text[:half]}\n...\n{text[-half:]}"
        with contextlib.suppress(Exception):
            self.tell()  # first: a launcher that has no room for what is printed ends this process
        number = self.rank.number
        with contextlib.suppress(Exception):  # the script may have closed it
            stream = sys.__stderr__ or sys.stderr
            stream.write(f"--- rank {number} on {self.rank.host} failed ---\n{text}--- end of rank {number} ---\n")
            stream.flush()

    def excepthook(self, kind: Any, error: BaseException, trace: Any) -> None:
        """Print an exception that ends this rank; those of other processes as Python does."""
        if self.rank.speaks():
            self.show("".join(traceback.format_exception(kind, error, trace)))
        else:
            sys.__excepthook__(kind, error, trace)

    def watch_arguments(self, argparse: Any) -> None:
        """Shorten the error of a parser that refuses the script's arguments: it leaves out the usage of all of them.

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
