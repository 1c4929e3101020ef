"""Packages as the stack has them: all are pinned, and a model in one comes from the indexes of the stack."""

from __future__ import annotations

import json
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical
from support import playbooks
from support.checkout import ROOT
from support.stand_ins import make_wheel


def test_a_package_comes_from_where_the_stack_does(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "tiny-model", "1.0", files={"tiny_model/config.json": "{}"})
    variables: dict[str, Any] = {
        "ansible_connection": "local",
        "preflight_host": {"host": {"glibc": "2.36", "python": platform.python_version()}},
        "cluster_cache": str(tmp_path / "control"),
        # Without them pip would ask its own index, which has no such package.
        "torch_stack_index_url": "none",
        "torch_stack_index_urls": None,
        "torch_stack_find_links": [str(tmp_path / "wheels")],
        "data_cache_sources": {"models/tiny": {"package": "tiny-model==1.0", "path": "tiny_model"}},
    }
    playbooks.write_inventory(tmp_path, tmp_path / "prefix", {"node0": {}}, **variables)
    paths = {
        "content": "{{ data_cache_paths | to_json }}",
        "dest": str(tmp_path / "paths.json"),
        "mode": "0644",
    }
    play = {
        "hosts": "cluster",
        "gather_facts": False,
        "roles": ["amx.cluster.data_cache"],
        "post_tasks": [{"ansible.builtin.copy": paths}],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    ran = playbooks.play(tmp_path, "play.yml")
    assert ran.returncode == 0, ran.stdout
    model = Path(json.loads((tmp_path / "paths.json").read_text())["models/tiny"])
    assert (model / "config.json").read_text() == "{}"


def test_all_that_a_stack_brings_along_is_pinned(environment: Path) -> None:
    """Else a cluster that is installed later has other versions, which nobody has tested."""
    stack = json.loads((environment / "amx-cluster.json").read_text())
    text = (ROOT / "roles/torch_stack/files" / stack["constraints"]).read_text()
    pins = {**dict(re.findall(r"^([^#=\s]+)==([^;\s]+)", text, re.M)), **stack["packages"]}
    installed = metadata.distributions(path=[str(*environment.glob("lib/python3.*/site-packages"))])
    assert {canonical(one.name): one.version for one in installed} == {canonical(n): v for n, v in pins.items()}
