from __future__ import annotations

import codecs
import fcntl
import json
import os
import resource
import select
import signal
import stat
import tempfile
import time
import traceback
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._jobs import host_queue
from ansible_collections.amx.cluster.plugins.module_utils._jobs.host_queue import AGED, Entry, Place
from hypothesis import given
from hypothesis import strategies as st

HOSTS = ("n0", "n1", "n2")
NOW = 1e9


def entry(number: int, hosts: str = "n0", waits: bool = True, **fields: float | str) -> Entry:
    return Entry(f"j{number}", hosts.split(), number, NOW, waits=waits, user="ann", **fields)  # type: ignore[arg-type]


ENTRIES = st.lists(
    st.tuples(
        st.sets(st.sampled_from(HOSTS), min_size=1), st.integers(-2, 2), st.floats(0, 3 * AGED), st.booleans()
    ).map(lambda made: Entry("j", sorted(made[0]), 0, NOW - made[2], made[1], waits=made[3])),
    max_size=8,
).map(lambda made: [replace(one, number=number) for number, one in enumerate(made)])


def begun(entries: list[Entry], now: float = NOW) -> list[Entry]:
    """Return the entries once all have begun whose turn it is, one after the other."""
    while turns := [one for one in entries if one.waits and not host_queue.ahead(one, entries, now)]:
        entries = [replace(one, waits=False) if one == turns[-1] else one for one in entries]
    return entries


@pytest.mark.slow
@given(ENTRIES)
def test_no_host_is_given_twice(entries: list[Entry]) -> None:
    entries = [replace(one, waits=True) for one in entries]
    taken = [host for one in begun(entries) if not one.waits for host in one.hosts]
    assert len(taken) == len(set(taken))


@pytest.mark.slow
@given(ENTRIES)
def test_nobody_takes_a_host_from_one_before_it(entries: list[Entry]) -> None:
    order = [one.number for one in host_queue.ordered(entries, NOW)]
    after = {one.number: one for one in begun(entries)}
    for place, number in enumerate(order):
        for later in order[place + 1 :]:
            if after[number].waits and not after[later].waits:
                assert set(after[number].hosts).isdisjoint(after[later].hosts)


@pytest.mark.slow
@given(ENTRIES)
def test_the_first_begins_when_nobody_runs(entries: list[Entry]) -> None:
    entries = [one for one in entries if one.waits]
    if entries:
        first = host_queue.ordered(entries, NOW)[0]
        assert host_queue.ahead(first, entries, NOW) == []


@pytest.mark.slow
@given(ENTRIES, st.lists(st.sets(st.sampled_from(HOSTS), min_size=1), min_size=1, max_size=4))
def test_nothing_starves(entries: list[Entry], arrivals: list[set[str]]) -> None:
    """With jobs of a higher priority that arrive for ever, each job begins after those that were there when it has
    waited for a day."""
    entries = [replace(one, arrived=NOW) for one in entries]
    wait, now, number = {one.number for one in entries if one.waits}, NOW, len(entries)
    for _ in range(8 + 2 * len(entries)):
        for hosts in arrivals:
            number += 1
            entries.append(Entry("new", sorted(hosts), number, now, 1000))
        entries = begun(entries, now)
        now += AGED / 4
        entries = [one for one in entries if one.waits]  # all that run have ended
        wait &= {one.number for one in entries}
    assert not wait


@pytest.mark.slow
@given(ENTRIES)
def test_priority_first_then_arrival_and_a_day_before_both(entries: list[Entry]) -> None:
    order = host_queue.ordered(entries, NOW)
    for first, second in zip(order, order[1:]):
        aged = [NOW - one.arrived >= AGED for one in (first, second)]
        assert aged != [False, True]
        assert aged[0] or first.priority >= second.priority
        if aged[1] or (not aged[0] and first.priority == second.priority):
            assert first.number < second.number


def test_what_a_job_waits_for() -> None:
    entries = [
        entry(1, "n0 n1", waits=False, since="13:00"),
        entry(2, "n1 n2"),
        entry(3, "n2", priority=5),
        entry(4, "n3"),
    ]
    seen = host_queue.standing(entries[1], entries, NOW)
    assert seen["text"] == (
        "place 2 of 3 in the queue: n1 is locked by job j1 of ann since 13:00; job j3 of ann (priority 5) waits for n2"
    )
    assert [(one["job"], one["waits"]) for one in seen["ahead"]] == [("j1", False), ("j3", True)]
    assert host_queue.standing(entries[3], entries, NOW) == {}


def test_the_text_names_few_of_many_jobs() -> None:
    entries = [entry(number, waits=number > 1) for number in range(1, 201)]
    seen = host_queue.standing(entries[-1], entries, NOW)
    assert seen["text"].endswith("; job j5 of ann waits for n0; 194 more jobs before it")
    assert len(seen["ahead"]) == 199


class Process:
    """Another process that joins the queue, and is in it until it is killed."""

    def __init__(self, jobs: Path, name: str, user: int = 0) -> None:
        self.reader, writer = os.pipe()
        codecs.lookup("ascii")  # the other user may not read the files of this Python
        self.pid = os.fork()
        if not self.pid:
            try:
                if user:
                    os.setgroups([])
                    os.setgid(user)
                    os.setuid(user)
                os.umask(0o077)
                place = Place(jobs, Entry(name, ["n0"]), True)
                os.write(writer, b"waits;" if place.entry.waits else b"")
                while place.look():
                    time.sleep(0.02)
                os.write(writer, b"begins;")
                signal.pause()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(writer)

    def says(self, seconds: float = 30) -> str:
        """Return what it has written; nothing where that is nothing within these seconds."""
        is_ready = select.select([self.reader], [], [], seconds)[0]
        return os.read(self.reader, 100).decode() if is_ready else ""

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.reader)


def queued(jobs: Path, *names: str) -> list[Process]:
    """Return processes that have joined the queue, of which the first has begun."""
    joined = []
    for name in names:
        joined.append(Process(jobs, name))
        assert joined[-1].says() == ("waits;" if joined[1:] else "begins;")
    return joined


@pytest.mark.slow
def test_entries_of_killed_jobs_count_no_more(tmp_path: Path) -> None:
    first, killed, last = queued(tmp_path, "first", "killed", "last")
    assert [one.job for one in host_queue.ordered(host_queue.read(tmp_path), NOW)] == ["killed", "last"]
    killed.kill()
    assert [one.job for one in host_queue.ordered(host_queue.read(tmp_path), NOW)] == ["last"]
    assert last.says(0.2) == ""
    first.kill()
    assert last.says() == "begins;"
    with pytest.raises(host_queue.NotFreeError, match="n0 is locked by job last"):
        Place(tmp_path, Entry("refused", ["n0", "n1"]), False)
    assert [path.name for path in tmp_path.glob(host_queue.FORM)] == [f".last.{last.pid}.queue"]
    last.kill()
    assert host_queue.read(tmp_path) == []


@pytest.mark.slow
def test_nobody_waits_for_a_job_that_was_stopped(tmp_path: Path) -> None:
    first, stopped, last = queued(tmp_path, "first", "stopped", "last")
    os.kill(stopped.pid, signal.SIGSTOP)
    os.waitpid(stopped.pid, os.WUNTRACED)
    path = tmp_path / f".stopped.{stopped.pid}.queue"
    first.kill()
    assert last.says(0.2) == ""
    before = path.stat().st_mtime - host_queue.ABSENT
    os.utime(path, (before, before))
    assert last.says() == "begins;"
    os.kill(stopped.pid, signal.SIGCONT)
    assert stopped.says(0.2) == ""  # the other one has the host
    last.kill()
    assert stopped.says() == "begins;"
    stopped.kill()


def test_a_place_that_cannot_be_touched_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Process(tmp_path, "first")
    assert first.says() == "begins;"
    place = Place(tmp_path, Entry("second", ["n0"]), True)

    def refuse(*_arguments: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert place.look()["place"] == 1
    first.kill()
    assert place.look() == {}
    place.leave()


@pytest.mark.slow
def test_jobs_that_arrive_at_once_begin_one_after_the_other(tmp_path: Path) -> None:
    left = {process.reader: process for process in (Process(tmp_path, f"j{number}") for number in range(6))}
    while left:
        ready = select.select(list(left), [], [], 30)[0]
        begun = [reader for reader in ready if "begins;" in left[reader].says()]
        assert len(begun) <= 1
        assert ready
        for reader in begun:
            assert len([one for one in host_queue.read(tmp_path) if not one.waits]) == 1
            left.pop(reader).kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
def test_users_that_share_the_directory_share_the_queue() -> None:
    with tempfile.TemporaryDirectory() as base:
        jobs = Path(base)
        jobs.chmod(0o1777)
        first = Process(jobs, "first", 65533)
        assert first.says() == "begins;"
        second = Process(jobs, "second", 65532)
        assert second.says() == "waits;"
        modes = {path.name.split(".")[1]: stat.S_IMODE(path.stat().st_mode) for path in jobs.glob(".*")}
        assert modes == {"first": 0o644, "second": 0o644, "lock": 0o666}
        first.kill()
        assert second.says() == "begins;"
        second.kill()


def test_an_entry_is_for_its_user_alone_where_nobody_else_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    place = Place(tmp_path, Entry("mine", ["n0"]), True)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob(".*")} == {0o600}
    place.leave()
    assert host_queue.read(tmp_path) == []


def test_a_job_gives_up_hosts(tmp_path: Path) -> None:
    place = Place(tmp_path, Entry("wide", ["n0", "n1"]), True)
    other = Process(tmp_path, "other")
    assert other.says() == "waits;"
    place.keep(["n1"])
    assert other.says() == "begins;"
    other.kill()
    place.leave()


def test_a_job_that_does_not_wait_goes_before_nobody(tmp_path: Path) -> None:
    first = Process(tmp_path, "first")
    assert first.says() == "begins;"
    later = Place(tmp_path, Entry("later", ["n0", "n1"], priority=-5), True)
    with pytest.raises(host_queue.NotFreeError, match=r"^job later of  \(priority -5\) waits for n1$"):
        Place(tmp_path, Entry("refused", ["n1"]), False)
    first.kill()
    assert later.look() == {}
    later.leave()


def test_an_entry_that_a_full_disk_cuts_short_is_refused(tmp_path: Path) -> None:
    """Nobody could read it, and others would begin on the hosts of its job."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="No space left on device"):
            Place(tmp_path, Entry("wide", [f"n{number}" for number in range(99)]), True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.glob(host_queue.FORM)) == []


def test_a_reset_knows_the_entry_of_a_job_with_many_hosts(tmp_path: Path) -> None:
    place = Place(tmp_path, Entry("wide", [f"worker-{number}.example.com" for number in range(99)]), True)
    assert _ownership.is_own(place.path)
    place.leave()


def test_what_is_no_entry_is_in_nobodys_way(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".pipe.1.queue")
    (tmp_path / ".directory.1.queue").mkdir()
    (tmp_path / ".link.1.queue").symlink_to(".link.1.queue")
    job = Process(tmp_path, "job")
    assert job.says() == "begins;"
    job.kill()


@pytest.mark.parametrize(
    "damaged",
    [
        *('{"hosts": [["a"]]}', '{"arrived": "x"}', '{"priority": []}', "[1]", '"text"', '{"number": Infinity}'),
        *('{"arrived": NaN}', '{"arrived": 1e400}', '{"user": "\\ud800"}'),
    ],
)
def test_what_is_no_entry_keeps_nobody_from_the_queue(tmp_path: Path, damaged: str) -> None:
    wrong = tmp_path / ".evil.1.queue"
    document = json.loads(damaged)
    complete = {**entry(1).to_json(), **document} if isinstance(document, dict) else document
    wrong.write_text(json.dumps(complete))
    with wrong.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        place = Place(tmp_path, Entry("mine", ["a"]), waits=False)
        assert place.look() == {}
        place.leave()
