"""Draw what playbooks print: `tools/terminal_pictures.py`, called by `make docs PICTURES=1`.

Runs playbooks/plan.yml and playbooks/train.yml with the demo's job on this machine, on which `make demo` has run
before, and writes docs/images/plan.svg and docs/images/train.svg.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100


def main() -> None:
    """Run the playbooks and write the pictures."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "NO_COLOR"))}
    env |= {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    for name in ("plan", "train"):
        words = ["amx", name, "jobs/demo.yml"]
        done = subprocess.run(
            [str(ROOT / ".venv/bin" / words[0]), *words[1:]],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"terminal_pictures: {' '.join(words)} failed\n{done.stdout}{done.stderr}")
        console = Console(record=True, width=COLUMNS, file=io.StringIO())
        console.print(Text.from_ansi(f"$ {' '.join(words)}\n{done.stdout}"))
        console.save_svg(str(ROOT / f"docs/images/{name}.svg"), title=f"amx {name}")


if __name__ == "__main__":
    main()
