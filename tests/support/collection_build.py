"""Build the collection and check what the tarball holds: what a user needs, and nothing else that lies about."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.checkout import BIN, ROOT, tracked


def problems(held: set[str], known: set[str]) -> list[str]:
    """Return what is wrong with a tarball that holds these files, given those that git knows; one sentence each."""
    problems_ = [f"holds {name}, which is not a file of the project" for name in sorted(held - known)]
    problems_ += [f"holds {name}, which only a checkout needs" for name in sorted(held) if name.startswith(".c")]
    needed = {
        name for name in known if name.startswith(("cli/", "plugins/", "roles/", "runtime/", "playbooks/", "meta/"))
    }
    problems_ += [f"does not hold {name}" for name in sorted((needed | {"README.md", "LICENSE"}) - held)]
    return problems_


def main() -> int:
    """Build into a temporary directory and report. Returns the exit code."""
    with tempfile.TemporaryDirectory() as directory:
        built = subprocess.run(
            [str(BIN / "ansible-galaxy"), "collection", "build", "--output-path", directory],
            cwd=ROOT,
            check=False,
            capture_output=True,
        )
        if built.returncode:
            print(built.stdout.decode(), built.stderr.decode())
            return 1
        (tarball,) = Path(directory).glob("amx-cluster-*.tar.gz")
        with tarfile.open(tarball) as archive:
            # Written by the build itself: MANIFEST.json and FILES.json.
            held = {member.name for member in archive if not member.isdir()} - {"MANIFEST.json", "FILES.json"}
        size = tarball.stat().st_size
    wrong = problems(held, set(tracked()))
    for problem in wrong:
        print(f"{tarball.name} {problem}")
    print(f"{tarball.name}: {len(held)} files, {size / 1024:.0f} KiB, {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
