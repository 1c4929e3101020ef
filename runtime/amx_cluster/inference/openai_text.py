# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of tokens that come one by one, up to a stop string: complete characters, and nothing of the stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# What a decoder writes for bytes that are no character (yet).
UNKNOWN = "\ufffd"
# Bytes that a character of UTF-8 has at most: a tail of so many tokens is not the beginning of one.
CHARACTER = 4


class Text:
    """A text that grows. ended: whether a stop string came, which the text ends before."""

    def __init__(
        self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = (), before: Sequence[int] = ()
    ) -> None:
        """decode: returns the text of tokens, without special tokens. stops: strings before which the text ends.

        before: the last tokens of the text that this one goes on with.
        """
        self.decode, self.stops = decode, stops
        self.ended = False
        self._tokens = list(before)
        while self._tokens and decode(self._tokens).startswith(UNKNOWN):  # they begin within a character
            del self._tokens[0]
        # The tokens before `_read` are written; those from `_context` on are decoded with the next ones, as the first
        # token of a text may lose its space.
        self._context, self._read = 0, len(self._tokens)
        self._held = ""  # that a stop string may begin with

    def add(self, token: int) -> str:
        """Return the text that is certain by this token; empty where it may be half of a character or stop string."""
        self._tokens.append(token)
        new = self._decoded(len(self._tokens))
        if new.endswith(UNKNOWN):
            # Bytes that never become a character are written all the same, before those that may.
            certain = len(self._tokens) - CHARACTER + 1
            if certain - self._read < CHARACTER:
                return ""
            return self._before_stops(self._written(certain))
        return self._before_stops(self._written(len(self._tokens)))

    def end(self) -> str:
        """Return the rest of the text, of which no more tokens come."""
        rest = self._before_stops(self._written(len(self._tokens))) if not self.ended else ""
        held, self._held = self._held, ""
        return rest + ("" if self.ended else held)

    def _decoded(self, end: int) -> str:
        before = self.decode(self._tokens[self._context : self._read])
        return self.decode(self._tokens[self._context : end])[len(before) :]

    def _written(self, end: int) -> str:
        new = self._decoded(end)
        if new:
            self._context, self._read = self._read, end
        return new

    def _before_stops(self, new: str) -> str:
        text = self._held + new
        places = [place for stop in self.stops if (place := text.find(stop)) >= 0]
        if places:
            self.ended, self._held = True, ""
            return text[: min(places)]
        kept = max((_overlap(text, stop) for stop in self.stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of a text are the beginning of a stop string."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if stop.startswith(text[-size:])), 0)
