# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts: inventory, facts, AMX, the doctor's checks (one file for each topic), SSH, firewall, kernel settings.
Imports from: _cores.
"""
