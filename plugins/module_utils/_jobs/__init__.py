# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job from file to results: fields, kinds, plan, launchers, supervisor, checkpoints, faults, progress.
Imports from: _cores, _data, _hosts, _stacks.
"""
