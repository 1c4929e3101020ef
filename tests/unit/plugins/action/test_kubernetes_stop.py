"""What a user may not do is known before a job on Kubernetes is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action.kubernetes_stop import ActionModule
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from support.api_server import api_server

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
OBJECTS = [{"api_version": "batch/v1", "kind": "Job", "name": "demo"}]


def test_rights_that_are_missing(tmp_path: Path) -> None:
    """train.yml needs no patch: its user may lack that, and would have a job without pods whose objects are left."""

    def review(request: dict[str, Any]) -> Any:
        asked = request["body"]["spec"]["resourceAttributes"]
        return 201, {"status": {"allowed": asked["verb"] != "patch"}}

    with api_server({REVIEWS: review}) as server:
        api = Api.connect(server.kubeconfig(tmp_path))
        ActionModule.check(api, "team", OBJECTS, notes=False)
        with pytest.raises(ValueError, match="may not patch configmaps in namespace team, nothing was stopped"):
            ActionModule.check(api, "team", OBJECTS, notes=True)
