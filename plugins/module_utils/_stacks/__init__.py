# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that ranks import: catalogue of stacks, package indexes, wheelhouses, virtual environments and their checks.
Imports from: _data, _hosts.
"""
