# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a job: verified sets, the Hugging Face hub, projects and ignore files, passing on, rows of data.
Imports from: none.
"""
