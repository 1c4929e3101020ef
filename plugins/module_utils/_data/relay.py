# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send files to another host as a tar stream, or receive them: a program that the head starts on hosts by ssh.

It is sent to the host's Python on standard input, followed by one line of options as JSON. Only the standard library is
used. Files are received over standard input, or from another host over TCP: the head alone may log in on hosts, so that
others pass on what they have through a listener that accepts one connection, with a token that the head gave to both.
"""

from __future__ import annotations

import hmac
import json
import os
import shutil
import socket
import sys
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import IO

TOKEN_BYTES = 64


def pack(stream: IO[bytes], directory: Path, names: Iterable[str]) -> int:
    """Write files, and directories with all that is in them, as a tar stream. Returns how many files. Raises OSError.

    names: paths in `directory`. Links are followed.
    """
    count = 0

    def counted(member: tarfile.TarInfo) -> tarfile.TarInfo:
        nonlocal count
        count += member.isfile()
        return member

    with tarfile.open(fileobj=stream, mode="w|", dereference=True, bufsize=1 << 20) as tar:
        for name in names:
            tar.add(directory / name, arcname=name, filter=counted)
    return count


def unpack(stream: IO[bytes], directory: Path, names: Iterable[str]) -> int:
    """Write the files of a tar stream into `directory`, each at once. Returns how many.

    Raises OSError, tarfile.TarError, and ValueError for a file that is not among `names` or below one of them.
    """
    wanted = {PurePosixPath(name) for name in names}
    count = 0
    with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if ".." in path.parts or not wanted & {path, *path.parents}:
                raise ValueError(f"{path} was sent and not requested")
            target = directory / path
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member) if member.isfile() else None
            if source:
                target.parent.mkdir(parents=True, exist_ok=True)
                _write(source, target, member)
                count += 1
    return count


def _write(source: IO[bytes], target: Path, member: tarfile.TarInfo) -> None:
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as stream:
            shutil.copyfileobj(source, stream, 1 << 20)
        part.chmod(member.mode & 0o777)
        os.utime(part, (member.mtime, member.mtime))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def send(address: str, port: int, token: str, directory: Path, names: Iterable[str], seconds: float) -> int:
    """Send files to a listener. Returns how many it has received. Raises what pack does, and ValueError."""
    with socket.create_connection((address, port), seconds) as connection:
        connection.sendall(token.encode())
        with connection.makefile("wb") as stream:
            count = pack(stream, directory, names)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answers:
            received = answers.readline().decode().strip()
    if received != str(count):
        raise ValueError(f"{address} received {received or 'no'} files of {count}")
    return count


def listen(address: str, token: str, directory: Path, names: Iterable[str], seconds: float) -> int:
    """Print a port, and receive files there from the host that knows the token. Returns how many.

    Raises what unpack does, and TimeoutError when nobody connects.
    """
    end = time.monotonic() + seconds
    with socket.create_server((address, 0)) as server:
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            server.settimeout(max(0.01, end - time.monotonic()))
            connection, _peer = server.accept()
            connection.settimeout(seconds)
            with connection, connection.makefile("rb") as stream:
                if not hmac.compare_digest(_token(stream), token.encode()):
                    continue
                count = unpack(stream, directory, names)
                connection.sendall(f"{count}\n".encode())
                return count


def _token(stream: IO[bytes]) -> bytes:
    try:
        return stream.read(TOKEN_BYTES)
    except OSError:
        return b""


def main() -> None:
    """Do what the line of options on standard input says, print how many files, and exit with 1 when that failed."""
    options = json.loads(sys.stdin.buffer.readline())
    task = options.pop("task")
    options["directory"] = Path(options["directory"])
    try:
        if task == "receive":
            done = unpack(sys.stdin.buffer, **options)
        elif task == "send":
            done = send(**options)
        else:
            done = listen(**options)
    except (OSError, ValueError, tarfile.TarError) as error:
        raise SystemExit(str(error) or type(error).__name__) from None
    sys.stdout.write(f"{done}\n")


if __name__ == "__main__":
    main()
