from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.amx.cluster.plugins.lookup.host_values import LookupModule

HOSTVARS = {
    "node0": {"inventory_hostname": "node0", "interface": {"address": "10.0.0.5"}},
    "node1": {"inventory_hostname": "node1"},
}


class Lookup(LookupModule):
    """With its options set directly, since their documentation is read by Ansible's own loader of collections only."""

    def set_options(self, var_options: Any = None, direct: dict[str, Any] | None = None, **_more: Any) -> None:
        self._direct = direct or {}

    def get_option(self, option: str, hostvars: Any = None) -> Any:
        return self._direct[option]


def values(*terms: Any, **paths: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Lookup().run(list(terms), variables={"hostvars": HOSTVARS}, values=paths)
    return found


def test_values_of_hosts() -> None:
    paths = {"host": "inventory_hostname", "address": "interface.address"}
    first, second = {"host": "node0", "address": "10.0.0.5"}, {"host": "node1", "address": None}
    assert values(["node1", "node0"], **paths) == [second, first]
    assert values("node0", ["node1"], **paths) == [first, second]
    assert values(**paths) == []


def test_an_unknown_host() -> None:
    with pytest.raises(AnsibleLookupError, match=r"^not in the inventory: node8, node9$"):
        values("node0", "node8", "node9")
