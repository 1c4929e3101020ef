# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements of jobs: sweeps, tuning, inference, network, and the report of their results.
Imports from: _cores, _data, _jobs, _stacks.
"""
