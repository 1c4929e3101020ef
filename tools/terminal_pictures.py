"""Draw what commands print on a terminal, as docs/images/NAME.svg in the viewer's colours, light or dark.

tools/terminal_pictures.py                           runs `amx plan` and `amx train` for the demo, after `make demo`
tools/terminal_pictures.py NAME COMMAND              runs COMMAND in the checkout
tools/terminal_pictures.py NAME COMMAND RECORDING    draws a recording of COMMAND, from any machine, made with
    script -qec 'stty cols 110 rows 50; COMMAND' /dev/null >RECORDING
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

import pyte

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 110  # to which plans are wrapped
CELL, LINE, BORDER = 8.4, 19, 16  # a character's width and height, and the space around the text, in pixels
STYLE = """
svg { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
text { fill: #1f2328; white-space: pre; }
.screen { fill: #ffffff; stroke: #d0d7de; }
.red { fill: #cf222e; } .green { fill: #116329; } .brown { fill: #7d4e00; } .bold { font-weight: bold; }
.dim { opacity: 0.7; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .screen { fill: #0d1117; stroke: #3d444d; }
  .red { fill: #ff7b72; } .green { fill: #56d364; } .brown { fill: #e3b341; }
}"""


def recorded(command: str) -> str:
    """Return what a command writes to a terminal of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "NO_COLOR"))}
    env |= {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PATH": f"{ROOT}/.venv/bin:{env['PATH']}"}
    words = ["script", "-qec", f"stty cols {COLUMNS} rows 50; {command}", "/dev/null"]
    done = subprocess.run(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=False)
    written = done.stdout.decode()  # with its carriage returns
    if done.returncode:
        sys.exit(f"terminal_pictures: {command} failed\n{written}")
    return written


def drawn(cells: list[pyte.screens.Char], y: int) -> str:
    """Return a line as elements of SVG, one for each run of characters of the same style."""
    parts, column = [], 0
    for (colour, ground, bold, dim), run in groupby(cells, lambda cell: (cell.fg, cell.bg, cell.bold, cell.italics)):
        text = "".join(cell.data for cell in run)
        x, width = column * CELL, len(text) * CELL
        column += len(text)
        if ground != "default":
            parts.append(f'<rect x="{x:.1f}" y="{y - 14}" width="{width:.1f}" height="{LINE}" fill="#{ground}"/>')
        classes = " ".join([colour] * (colour in ("red", "green", "brown")) + ["bold"] * bold + ["dim"] * dim)
        look = f' class="{classes}"' if classes else ""
        look += f' style="fill: #{colour}"' if re.fullmatch("[0-9a-f]{6}", colour) else ""
        # What stands in columns has its place and length, whatever font the viewer has.
        for part in re.finditer(r"\S+(?: \S+)*", text):
            at, length = x + part.start() * CELL, len(part[0]) * CELL
            parts.append(f'<text x="{at:.1f}" y="{y}" textLength="{length:.1f}"{look}>{escape(part[0])}</text>')
    return "".join(parts)


def picture(written: str, command: str) -> str:
    """Return what a terminal shows in the end, as SVG."""
    screen = pyte.Screen(COLUMNS, written.count("\n") + len(written) // COLUMNS + 3)
    screen.set_mode(pyte.modes.LNM)
    # pyte knows no dim text, but italics, which nothing prints.
    pyte.Stream(screen).feed(f"$ {command}\n{written}".replace("\x1b[2m", "\x1b[3m"))
    rows = max(row for row, line in enumerate(screen.display) if line.strip()) + 1
    width, height = round(COLUMNS * CELL) + 2 * BORDER, rows * LINE + 2 * BORDER
    lines = [drawn([screen.buffer[row][at] for at in range(COLUMNS)], (row + 1) * LINE - 5) for row in range(rows)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>{escape(command)}</title>",
            f"<style>{STYLE}\n</style>",
            f'<rect class="screen" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            f'<g transform="translate({BORDER} {BORDER})" xml:space="preserve">',
            *filter(None, lines),
            "</g>\n</svg>\n",
        ]
    )


def main() -> None:
    """Draw one command, or those of the demo."""
    name, command, recording = (*sys.argv[1:], "", "", "")[:3]
    commands = {name: command} if command else {verb: f"amx {verb} jobs/demo.yml" for verb in ("plan", "train")}
    for name, command in commands.items():
        written = Path(recording).read_bytes().decode() if recording else recorded(command)
        (ROOT / f"docs/images/{name}.svg").write_text(picture(written, command), encoding="utf-8")


if __name__ == "__main__":
    main()
