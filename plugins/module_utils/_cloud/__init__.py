# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of rented hosts: the cloud file, what is asked of EC2, the plan, its inventory, and images of hosts.
Imports from: _jobs.
"""
