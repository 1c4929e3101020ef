"""Count of the collectives and messages that have ended in this process: a rank's observer takes it for progress."""

from __future__ import annotations

ended = 0


def note_end() -> None:
    """Count one more. Two threads at once may count one: what matters is that the number changes."""
    global ended
    ended += 1
