# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: results_directory
short_description: Return the directory of results, which amx_results of this host or of the head names
extends_documentation_fragment: amx.cluster.internal
"""

import os
from pathlib import Path
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory


class LookupModule(LookupBase):
    def run(self, _terms: list[Any], variables: Any = None, **kwargs: Any) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        # The variables of a cluster are those of its hosts: plays on the control node do not have them.
        hosts = [variables["inventory_hostname"], *inventory.host_order(variables["groups"])[:1]]
        named = [variables["hostvars"][host].get("amx_results") for host in hosts]
        return [next(filter(None, named), f"{here()}/results")]


def here() -> str:
    """Return the current directory by the name that the user has for it, unless PWD is that of another process.

    As with ansible-runner, which starts ansible-playbook in the directory of the project.
    """
    named = Path(os.environ.get("PWD") or "/")
    return str(named if named.is_dir() and named.samefile(Path()) else Path.cwd())
