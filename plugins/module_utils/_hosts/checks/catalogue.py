# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks of the doctor, in the order in which findings and documentation list them."""

from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import (
    capacity,
    cpu,
    fabric,
    jobs,
    login,
    network,
    software,
    ssh,
    system,
)

CHECKS = (
    login.reachable,
    login.python,
    login.user,
    login.sudo,
    system.architecture,
    system.glibc,
    system.unknown_os,
    system.os,
    cpu.cpu_model,
    cpu.isa,
    cpu.amx,
    cpu.amx_unused,
    cpu.cpu_quota,
    capacity.memory,
    capacity.disk,
    capacity.prefix,
    capacity.shm,
    network.network,
    network.clock,
    network.own_name,
    network.names,
    ssh.login,
    ssh.host_key,
    network.connection,
    software.stack,
    software.packages,
    software.provider,
    software.tcmalloc,
    fabric.fabric,
    fabric.fabric_unused,
    system.system_calls,
    jobs.orphaned_processes,
)
