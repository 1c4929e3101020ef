from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._io import write_json
from ansible_collections.amx.cluster.plugins.module_utils._stacks.archive import check, read, unpack
from ansible_collections.amx.cluster.plugins.module_utils._stacks.wheels import MANIFEST, manifest
from support.stand_ins import make_wheel


def test_an_archive_for_something_else() -> None:
    brought = {
        "wheels": [{"file": "torch-2.8.0+cpu-cp311-cp311-linux_x86_64.whl", "name": "torch", "version": "2.8.0+cpu"}]
    }
    check(brought, ["torch==2.8.0+cpu"], "3.11", "2.31")
    check(brought, ["torch==2.8.0"], "3.11", "2.31")
    error = (
        "the archive does not have torch==2.7.0+cpu (it has 2.8.0+cpu), datasets==4.0.0 (it has none): "
        "collect it again for this stack"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        check(brought, ["torch==2.7.0+cpu", "datasets==4.0.0"], "3.11", "2.31")
    error = (
        "the archive was collected for other hosts: these have Python 3.12 and glibc 2.31, which cannot use "
        "torch-2.8.0+cpu-cp311-cp311-linux_x86_64.whl"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        check(brought, ["torch==2.8.0"], "3.12", "2.31")


def test_a_directory_and_a_tar_file(tmp_path: Path) -> None:
    house = tmp_path / "cp311-1"
    wheel = make_wheel(house, "a", "1")
    write_json(house / MANIFEST, manifest(house))
    with tarfile.open(tmp_path / "house.tar", "w") as tar:
        tar.add(house, arcname=house.name)
    for number, source in enumerate((house, tmp_path / "house.tar")):
        content = read(source)
        assert content == manifest(house)
        target = tmp_path / f"unpacked-{number}"
        _ownership.make(target, "wheels")
        (target / "of a run that was killed").mkdir()
        unpack(source, target, content)
        assert sorted(path.name for path in target.iterdir()) == [_ownership.MARK, wheel.name]
        assert (target / wheel.name).read_bytes() == wheel.read_bytes()


def test_somebody_elses_directory_is_not_replaced(tmp_path: Path) -> None:
    make_wheel(tmp_path / "house", "a", "1")
    content = manifest(tmp_path / "house")
    (tmp_path / "unpacked/mine").mkdir(parents=True)
    with pytest.raises(ValueError, match="unpacked was not made by this collection"):
        unpack(tmp_path / "house", tmp_path / "unpacked", content)
    assert (tmp_path / "unpacked/mine").is_dir()


def test_a_damaged_archive(tmp_path: Path) -> None:
    house = tmp_path / "house"
    wheel = make_wheel(house, "a", "1")
    missing = make_wheel(house, "b", "1")
    content = manifest(house)
    wheel.write_bytes(wheel.read_bytes()[::-1])
    missing.unlink()
    error = (
        f"the archive {house} failed verification: {wheel.name} is damaged, {missing.name} is missing; "
        "copy it here again"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        unpack(house, tmp_path / "unpacked", content)


def test_no_archive(tmp_path: Path) -> None:
    error = (
        f"the archive {tmp_path} has no manifest.json: copy a complete directory that a control node with network "
        "access collected (in torch_stack_wheelhouse), or a tar file of it"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        read(tmp_path)
    (tmp_path / "no.tar").write_text("something else")
    with pytest.raises(ValueError, match=rf"^the archive {tmp_path}/no\.tar cannot be read: "):
        read(tmp_path / "no.tar")
