from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.amx.cluster.plugins.filter.cluster_interface import cluster_interface

ETH0 = {"interface": "eth0", "address": "10.0.0.5", "network": "10.0.0.0/24", "default": True}


@pytest.mark.parametrize("network", ["10.0.0.0/24", "", None])
def test_interface(network: str | None) -> None:
    found = cluster_interface([ETH0], network)
    assert found == {"interface": "eth0", "address": "10.0.0.5", "network": "10.0.0.0/24"}


def test_no_interface() -> None:
    message = "none of the host's addresses lies in cluster_network 10.9.0.0/16; its addresses: "
    with pytest.raises(AnsibleFilterError, match=f"^{message}eth0 10.0.0.5 in 10.0.0.0/24$"):
        cluster_interface([ETH0], "10.9.0.0/16")
    assert cluster_interface([ETH0], "10.9.0.0/16", default={}) == {}
