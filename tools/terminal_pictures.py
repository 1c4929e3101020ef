"""Draw what playbooks show on a terminal: `tools/terminal_pictures.py`, called by `make docs PICTURES=1`.

Runs playbooks/plan.yml and playbooks/train.yml with the demo's job on a terminal of this machine, on which `make demo`
has run before, and writes docs/images/plan.svg, a still picture, and docs/images/train.svg, which moves. They follow
the colours of their viewer, dark or light, and stand still at the end for whoever wants no motion.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import accumulate, groupby
from pathlib import Path
from xml.sax.saxutils import escape

import pyte
from terminal import Command, Screen

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/images"
JOB = "job=jobs/demo.yml"
COLUMNS = 100
LINES = 40
CELL, LINE, BORDER = 8.4, 19, 16  # a character's width and height, and the space around the text, in pixels
MOMENTS = 40  # of a moving picture, at even distances in the run
SHOWN = 0.4  # seconds for which a moment is shown; the last one for LAST
LAST = 6.0
LONGEST = 1800  # seconds that a playbook may take
STYLE = """
svg { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
.screen { fill: #0d1117; stroke: #30363d; }
text { fill: #e6edf3; white-space: pre; }
.red { fill: #ff7b72; } .green { fill: #56d364; } .brown { fill: #e3b341; }
.bold { font-weight: bold; } .dim { opacity: 0.6; }
@media (prefers-color-scheme: light) {
  .screen { fill: #ffffff; stroke: #d0d7de; }
  text { fill: #1f2328; }
  .red { fill: #cf222e; } .green { fill: #116329; } .brown { fill: #7d4e00; }
}
"""

Cell = tuple[str, str]  # a character, and the classes of its style
Frame = tuple[tuple[Cell, ...], ...]  # the lines of a screen, without empty ones at its end


def recorded(playbook: str) -> list[tuple[float, Frame]]:
    """Run a playbook for the demo's job; return what its terminal showed, each time from how many seconds on."""
    words = ["ansible-playbook", playbook, "-e", JOB]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "NO_COLOR"))}
    env |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    screen = Screen(COLUMNS, LINES)
    stream = pyte.Stream(screen)
    stream.feed(f"$ {' '.join(words)}\r\n")
    seen = [(0.0, frame(screen))]
    command = Command([str(ROOT / ".venv/bin" / words[0]), *words[1:]], ROOT, env, COLUMNS, LINES)
    for at, written in command.output(LONGEST):
        stream.feed(written)
        seen.append((at, frame(screen)))
    if code := command.end():
        sys.exit(f"terminal_pictures: {' '.join(words)} ended with exit code {code}\n" + "\n".join(screen.display))
    return seen


def film(seen: Sequence[tuple[float, Frame]]) -> list[tuple[float, Frame]]:
    """Return each picture of a film once, with the seconds for which it is shown: a run, played faster.

    seen: what a terminal showed, each time from how many seconds on.
    """
    moments = [seen[-1][0] * number / (MOMENTS - 1) for number in range(MOMENTS - 1)]
    shown = [(SHOWN, next(one for at, one in reversed(seen) if at <= moment)) for moment in moments]
    alike = [list(group) for _, group in groupby([*shown, (LAST, seen[-1][1])], key=lambda picture: picture[1])]
    return [(sum(seconds for seconds, _ in group), group[0][1]) for group in alike]


def frame(screen: Screen) -> Frame:
    """Return what a terminal shows."""
    lines = [
        tuple((cell.data, style(cell)) for cell in (screen.buffer[row][column] for column in range(COLUMNS)))
        for row in range(LINES)
    ]
    while lines and not text_of(lines[-1]).strip():
        lines.pop()
    return tuple(lines)


def style(cell: pyte.screens.Char) -> str:
    """Return the classes of a cell's style."""
    names = [cell.fg] if cell.fg in ("red", "green", "brown") else []
    return " ".join(names + ["bold"] * cell.bold + ["dim"] * cell.italics)


def text_of(line: Sequence[Cell]) -> str:
    """Return the characters of a line."""
    return "".join(character for character, _ in line)


def drawn(line: Sequence[Cell], y: float) -> str:
    """Return a line as elements of SVG, one for each run of characters of the same style."""
    parts, column = [], 0
    for classes, cells in groupby(line, key=lambda cell: cell[1]):
        text = text_of(list(cells))
        bare = text.strip(" ")
        if bare:
            x = (column + len(text) - len(text.lstrip(" "))) * CELL
            chosen = f' class="{classes}"' if classes else ""
            # The length keeps columns in place whatever font the viewer has.
            parts.append(f'<text x="{x:.1f}" y="{y}" textLength="{len(bare) * CELL:.1f}"{chosen}>{escape(bare)}</text>')
        column += len(text)
    return "".join(parts)


def picture(shown: Sequence[tuple[float, Frame]], title: str) -> str:
    """Return frames as SVG: a still picture of one, or of several a film strip that moves up by a frame at a time.

    shown: the frames, each with the seconds for which it is shown.
    """
    rows = max(len(one) for _, one in shown)
    width, height = COLUMNS * CELL + 2 * BORDER, rows * LINE + 2 * BORDER
    strip = "\n".join(
        drawn(line, number * height + (row + 1) * LINE - 5)
        for number, (_, one) in enumerate(shown)
        for row, line in enumerate(one)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
        f' role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}{motion([seconds for seconds, _ in shown], height)}</style>\n"
        f'<rect class="screen" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>\n'
        f'<svg x="{BORDER}" y="{BORDER}" width="{width - 2 * BORDER:.0f}" height="{height - 2 * BORDER}">'
        f'<g class="strip">\n{strip}\n</g></svg>\n</svg>\n'
    )


def motion(durations: Sequence[float], height: int) -> str:
    """Return the style that moves a strip of frames, each of which is shown for so many seconds."""
    if len(durations) < 2:
        return ""
    total = sum(durations)
    starts = accumulate(durations[:-1], initial=0.0)
    steps = "".join(
        f"{100 * start / total:.3f}% {{ transform: translateY(-{number * height}px); }}\n"
        for number, start in enumerate(starts)
    )
    end = f"translateY(-{(len(durations) - 1) * height}px)"
    return (
        f"@keyframes film {{\n{steps}100% {{ transform: {end}; }}\n}}\n"
        f".strip {{ animation: film {total:.1f}s step-end infinite; }}\n"
        f"@media (prefers-reduced-motion: reduce) {{ .strip {{ animation: none; transform: {end}; }} }}\n"
    )


def main() -> None:
    """Run the playbooks and write the pictures."""
    for name, title, moves in (
        ("plan", "playbooks/plan.yml shows the ranks, threads and cores of a job", False),
        ("train", "playbooks/train.yml plans a job, shows its progress while it trains, and its results", True),
    ):
        seen = recorded(f"playbooks/{name}.yml")
        shown = film(seen)
        path = IMAGES / f"{name}.svg"
        path.write_text(picture(shown if moves else shown[-1:], title), encoding="utf-8")
        print(
            f"{path.relative_to(ROOT)}: {seen[-1][0]:.0f} s in {len(shown)} pictures, {path.stat().st_size // 1024} KiB"
        )


if __name__ == "__main__":
    main()
