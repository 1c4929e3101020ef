# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job in pods: its objects and what the API server says of them, and what a pod does when it starts.
Imports from: _cores, _data, _hosts, _jobs, _stacks.
"""
