# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job in pods: control/ has what the control node does with its objects, pod/ what runs in a pod.
Imports from: _cores, _data, _hosts, _jobs, _stacks.
"""
