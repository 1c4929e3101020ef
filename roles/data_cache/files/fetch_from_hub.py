"""Fetch a repository of the Hugging Face hub into a folder: fetch_from_hub.py model|dataset REPOSITORY REVISION FOLDER

An interrupted fetch goes on where it stopped. Prints `changed` when anything was fetched.
"""

from __future__ import annotations

import sys
from pathlib import Path


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the files in a folder."""
    found = {path: path.stat() for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts}
    return {str(path): (told.st_size, told.st_mtime_ns) for path, told in found.items()}


def main(kind: str, repository: str, revision: str, folder: str) -> None:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        sys.exit(
            f"{sys.executable} has no huggingface_hub: install it there, set data_cache_control_python, "
            "or let the head fetch (at: head)"
        )
    before = state(Path(folder))
    try:
        snapshot_download(repository, repo_type=kind, revision=revision, local_dir=folder)
    except Exception as error:  # whatever goes wrong on the way, the user is told what was asked for
        sys.exit(f"{kind} {repository} at revision {revision} could not be fetched: {type(error).__name__}: {error}")
    print("changed" if state(Path(folder)) != before else "unchanged")


if __name__ == "__main__":
    main(*sys.argv[1:])
