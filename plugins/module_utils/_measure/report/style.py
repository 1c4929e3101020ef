# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Style of figures: their colours in light and dark, their size, and their drawing by matplotlib.

A figure is drawn once, in the colours of a light page. As a PNG it keeps them; in a page each colour becomes a CSS
variable, so that the page's dark colours are the figure's, too. matplotlib is imported only when a figure is made.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import Table

VERSION = "3.11.2"
MISSING = f"matplotlib is missing on the control node: pip install matplotlib=={VERSION} (requirements.txt)"

# {name of the CSS variable: (light, dark)}. Light colours are unique: they are found again in a drawn figure.
COLOURS = {
    "ink": ("#1c2128", "#e6e9ed"),
    "muted": ("#68717d", "#9aa4b0"),
    "grid": ("#e2e6eb", "#343b45"),
    "paper": ("#fffffe", "#171b21"),
    "reference": ("#b4bcc6", "#5a6572"),
    "bad": ("#c9252d", "#ff7b7b"),
    "c1": ("#2f6db0", "#6ba6e8"),
    "c2": ("#d9822b", "#f0a75c"),
    "c3": ("#2c8a57", "#5cc48c"),
    "c4": ("#8a4fae", "#c08ae0"),
    "c5": ("#b3a125", "#d8c95a"),
    "c6": ("#2598a8", "#5ccad8"),
    "c7": ("#a8546b", "#e08fa5"),
    "c8": ("#6a6a86", "#a9a9c9"),
}
SERIES = tuple(name for name in COLOURS if re.fullmatch(r"c\d", name))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

WIDTH = 5.6  # inches of every figure: on a phone, too, its text can be read
DPI = 180

_RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "amx.cluster",
    "axes.unicode_minus": True,
}
_NUMBERED = re.compile(r'(\bid="|url\(#|href="#)')


@dataclass(frozen=True)
class Drawn:
    """A figure. name: of its file. alt: what it shows, with the figures. table: whose rows it draws."""

    name: str
    title: str
    alt: str
    figure: Any
    table: Table
    note: str = ""


def require() -> None:
    """Raise ValueError naming the command that installs matplotlib, where it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ValueError(MISSING) from None


def colour(name: str) -> str:
    """Return the light colour of a name in COLOURS."""
    return COLOURS[name][0]


def of_series(place: int) -> str:
    """Return the colour of the series with this number, from 0."""
    return colour(SERIES[place % len(SERIES)])


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Set the report's style for figures that are made and written meanwhile. Raises ValueError without matplotlib."""
    require()
    import matplotlib

    with matplotlib.rc_context(_RC):
        yield


def figure(height: float = 3.3, panels: int = 1, heights: Sequence[float] = ()) -> tuple[Any, list[Any]]:
    """Return a new figure and its axes, one above the other. height: inches.

    heights: those of the axes, each with an x axis of its own; without them they are as high as each other, and have
    one in common.
    """
    from matplotlib.figure import Figure

    made = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained", facecolor=colour("paper"))
    shares = {"height_ratios": list(heights)} if heights else {"sharex": True}
    axes = list(made.subplots(panels, 1, squeeze=False, **shares)[:, 0])
    for axis in axes:
        plain(axis)
    return made, axes


def plain(axes: Any) -> None:
    """Take from axes what carries no information."""
    axes.set_facecolor("none")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(colour("muted"))
        axes.spines[side].set_linewidth(0.8)
    axes.tick_params(colors=colour("muted"), labelcolor=colour("ink"), length=3, labelsize=9)
    axes.grid(axis="y", color=colour("grid"), linewidth=0.8)
    axes.set_axisbelow(True)


def labels(axes: Any, x: str = "", y: str = "") -> None:
    """Name the axes."""
    axes.set_xlabel(x, color=colour("muted"), fontsize=9)
    axes.set_ylabel(y, color=colour("muted"), fontsize=9)


def note(axes: Any, text: str, at: tuple[float, float], offset: tuple[float, float], **look: Any) -> None:
    """Write a text beside a place. offset: points to the right and up of it."""
    look = {"fontsize": 9, "color": colour("ink"), **look}
    axes.annotate(text, at, textcoords="offset points", xytext=offset, **look)


def line(axes: Any, x: Sequence[float], y: Sequence[float], errors: Any, place: int, label: str, **look: Any) -> None:
    """Draw the series with this number as a line with error bars: how far their ends lie below and above."""
    look = {"color": of_series(place), "marker": MARKERS[place % len(MARKERS)], "label": label, **look}
    axes.errorbar(x, y, yerr=errors, **look)


def legend(made: Any, axes: Any, columns: int = 3) -> None:
    """Put the legend above the figure, where it covers nothing; none for a single entry without a name.

    axes: those whose entries it has, one or a list of them.
    """
    every = axes if isinstance(axes, list) else [axes]
    named = [entry for axis in every for entry in zip(*axis.get_legend_handles_labels())]
    entries = list({name: (handle, name) for handle, name in reversed(named)}.values())[::-1]
    if not entries:
        return
    from matplotlib.container import Container

    # What was measured stands before what it is compared with.
    entries.sort(key=lambda entry: not isinstance(entry[0], Container))
    handles, names = [handle for handle, _name in entries], [name for _handle, name in entries]
    longest = max(map(len, names))
    most = max(1, min(columns, int(66 / (longest + 6))))
    if sum(len(name) + 6 for name in names) <= 70:
        most = len(names)
    made.legend(
        handles,
        names,
        loc="outside upper left",
        ncols=min(most, len(names)),
        frameon=False,
        fontsize=9,
        labelcolor=colour("ink"),
        handlelength=1.6,
        columnspacing=1.4,
        borderpad=0,
        borderaxespad=0.2,
    )


def short(name: str, most: int = 34) -> str:
    """Return a name that fits into a legend."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def png(made: Any) -> bytes:
    """Return the figure as a PNG, in light colours."""
    stream = io.BytesIO()
    made.savefig(stream, format="png", dpi=DPI, facecolor=colour("paper"), metadata={"Software": None})
    return stream.getvalue()


def svg(drawn: Drawn) -> str:
    """Return the figure as SVG for a page: colours as CSS variables, text as text, ids that no other figure has."""
    stream = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    drawn.figure.savefig(stream, format="svg", facecolor="none", metadata=nothing)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    text = _NUMBERED.sub(rf"\g<1>{drawn.name}-", text)
    text = re.sub(r"(font: [^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1var(--font)", text)
    text = re.sub(r"font-family: 'DejaVu Sans'[^;\"]*", "font-family: var(--font)", text)
    for name, (light, _dark) in COLOURS.items():
        text = text.replace(light, f"var(--{name})")
    # The page gives the width; the height follows.
    return re.sub(r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true">', text, count=1)
