"""An API server for tests of jobs on Kubernetes: its objects, itself, and a connection to a namespace of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from support.api_server import REVIEWS, Server, Store, api_server


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def server(store: Store) -> Iterator[Server]:
    """A server whose user may do everything."""
    with api_server({REVIEWS: (201, {"status": {"allowed": True}})}) as running:
        running.others = store.answer
        yield running


@pytest.fixture
def api(server: Server, tmp_path: Path) -> Api:
    return Api.connect(server.kubeconfig(tmp_path), namespace="team")
