from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from ansible_collections.amx.cluster.plugins.module_utils import _launch, _plan_text
from ansible_collections.amx.cluster.plugins.module_utils._allocation import Request, make_plan
from ansible_collections.amx.cluster.plugins.module_utils._core_map import svg_map, text_map
from ansible_collections.amx.cluster.plugins.module_utils._topology import Topology
from machines import Machine, machine

JOB: dict[str, Any] = {"name": "demo", "precision": "fp32", "env": {}}
STACK = {"name": "native", "backend": "gloo"}


def plan_of(hosts: dict[str, Machine], request: Request = Request("<=2", reserved_cores=0)) -> dict[str, Any]:
    told = []
    for number, (name, made) in enumerate(hosts.items()):
        plan = make_plan(topology(made), request)
        allocation = {**plan.as_dict(), "map": text_map(plan)}
        told.append(
            {"host": name, "address": f"10.0.0.{number}", "interface": "eth0", "isa": "avx2", "allocation": allocation}
        )
    return _launch.make_plan(JOB, STACK, "/opt/env", told)


def topology(made: Machine) -> Topology:
    return made.topology()


def found(pattern: str, text: str) -> Sequence[str]:
    return re.findall(pattern, text, re.MULTILINE)
