from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import tuning

HUGE = "sys/kernel/mm/transparent_hugepage/enabled"
NUMA = "proc/sys/kernel/numa_balancing"
GOVERNOR = "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
SETTINGS = {HUGE: "always", NUMA: "0", GOVERNOR: "performance"}


def no_remount(path: Path, size: int) -> str:
    raise AssertionError(f"{path} was to be made {size} bytes")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host's files. Here a choice is not shown in brackets once it was written, as a kernel would."""
    files = {HUGE: "always [madvise] never\n", NUMA: "1\n"}
    for cpu in range(3):
        files[GOVERNOR.replace("*", str(cpu))] = "powersave\n" if cpu else "performance\n"
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path


def values(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): tuning.read(path) for path in sorted(root.rglob("*")) if path.is_file()}


def test_set_again_and_put_back(root: Path) -> None:
    before = values(root)
    remembered: dict[str, dict[str, str]] = {}
    first = tuning.apply(SETTINGS, 0, remembered, root, no_remount)
    assert first.applied == SETTINGS
    assert [row["path"] for row in first.changed] == [
        HUGE,
        NUMA,
        GOVERNOR.replace("*", "1"),
        GOVERNOR.replace("*", "2"),
    ]
    assert remembered[HUGE] == {"before": "madvise", "set": "always"}
    again = tuning.apply(SETTINGS, 0, remembered, root, no_remount)
    assert again.changed == []
    assert again.applied == SETTINGS
    other = tuning.apply({**SETTINGS, HUGE: "never"}, 0, remembered, root, no_remount)
    assert other.changed == [{"path": HUGE, "before": "always", "after": "never"}]
    assert remembered[HUGE] == {"before": "madvise", "set": "never"}
    back = tuning.apply({}, 0, remembered, root, no_remount)
    assert len(back.changed) == 4
    assert remembered == {}
    assert values(root) == before


def test_one_that_is_left_alone_is_put_back(root: Path) -> None:
    remembered: dict[str, dict[str, str]] = {}
    tuning.apply(SETTINGS, 0, remembered, root, no_remount)
    del (fewer := dict(SETTINGS))[NUMA]
    outcome = tuning.apply(fewer, 0, remembered, root, no_remount)
    assert outcome.changed == [{"path": NUMA, "before": "0", "after": "1"}]
    assert set(fewer) == set(outcome.applied)


def test_what_somebody_else_changed_since_is_left(root: Path) -> None:
    remembered: dict[str, dict[str, str]] = {}
    tuning.apply(SETTINGS, 0, remembered, root, no_remount)
    (root / HUGE).write_text("never")
    tuning.apply({}, 0, remembered, root, no_remount)
    assert tuning.read(root / HUGE) == "never"
    assert remembered == {}


def test_check_foretells_and_writes_nothing(root: Path) -> None:
    before = values(root)
    remembered: dict[str, dict[str, str]] = {}
    foretold = tuning.apply(SETTINGS, 0, remembered, root, no_remount, check=True)
    assert values(root) == before
    done = tuning.apply(SETTINGS, 0, {}, root, no_remount)
    assert (foretold.changed, foretold.applied) == (done.changed, done.applied)


def test_what_is_missing_or_refused_is_told(root: Path) -> None:
    (root / NUMA).unlink()
    (root / HUGE).unlink()
    (root / HUGE).mkdir()  # a file that can be neither read nor written, for root either
    outcome = tuning.apply(SETTINGS, 0, {}, root, no_remount)
    assert outcome.missing == [NUMA]
    assert outcome.refused == [{"setting": HUGE, "reason": "it cannot be read: Is a directory"}]
    assert outcome.applied == {GOVERNOR: "performance"}


def test_a_kernel_that_does_not_take_a_value_is_told(root: Path) -> None:
    (root / HUGE).write_text("[madvise]")
    (root / NUMA).unlink()
    (root / NUMA).symlink_to("/proc/version")  # nobody can write to it
    outcome = tuning.apply({NUMA: "0"}, 0, {}, root, no_remount)
    assert outcome.changed == []
    assert [row["setting"] for row in outcome.refused] == [NUMA]
    assert outcome.refused[0]["reason"].startswith("the kernel refuses 0: ")


class Shm:
    """Stands for a mounted tmpfs."""

    def __init__(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.size, self.refusal = size, ""
        monkeypatch.setattr(tuning, "_size", lambda _path: self.size)

    def remount(self, _path: Path, size: int) -> str:
        if not self.refusal:
            self.size = size
        return self.refusal


def test_shm_grows_and_shrinks_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "dev/shm").mkdir(parents=True)
    shm = Shm(2**26, monkeypatch)
    remembered: dict[str, dict[str, str]] = {}
    first = tuning.apply({}, 2**32, remembered, root, shm.remount)
    assert first.changed == [{"path": "dev/shm", "before": str(2**26), "after": str(2**32)}]
    assert first.applied == {"dev/shm": str(2**32)}
    assert tuning.apply({}, 2**32, remembered, root, shm.remount).changed == []
    tuning.apply({}, 0, remembered, root, shm.remount)
    assert shm.size == 2**26
    assert remembered == {}


def test_shm_is_never_made_smaller(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "dev/shm").mkdir(parents=True)
    shm = Shm(2**33, monkeypatch)
    outcome = tuning.apply({}, 2**32, {}, root, shm.remount)
    assert outcome.changed == []
    assert outcome.applied == {"dev/shm": str(2**32)}


def test_shm_that_cannot_grow_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "dev/shm").mkdir(parents=True)
    shm = Shm(2**26, monkeypatch)
    shm.refusal = "no"
    assert tuning.apply({}, 2**32, {}, root, shm.remount).refused == [{"setting": "dev/shm", "reason": "no"}]


def test_least_shm() -> None:
    assert tuning.least_shm(4, "MemFree: 1 kB\nMemTotal:       16777216 kB\n") == 4 * 2**30
    assert tuning.least_shm(4, "MemTotal: 1048576 kB\n") == 2**29
    with pytest.raises(ValueError, match=r"^/proc/meminfo has no MemTotal$"):
        tuning.least_shm(4, "")


def test_memory(tmp_path: Path) -> None:
    state = tmp_path / "folder/state.json"
    assert tuning.load(state) == {}
    tuning.store(state, {NUMA: {"before": "1", "set": "0"}})
    assert tuning.load(state) == {NUMA: {"before": "1", "set": "0"}}
    tuning.store(state, {})
    assert not state.exists()
    state.write_text("[]")
    message = f"{state} is no record of previous settings: repair or remove it"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        tuning.load(state)
