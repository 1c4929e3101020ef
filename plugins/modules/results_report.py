# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: results_report
short_description: Make a report of results
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads directories of results on the control node, and writes one HTML page that opens without a network, with its
    tables as CSV, its figures as PNG, and all of it as JSON.
  - Fails when a directory has no results, and when results of different jobs, models or stacks are mixed.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.document
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - The report is written anew each time.
requirements:
  - matplotlib
options:
  job:
    description:
      - The name of a job. The report is of its results, and of its sweep, tuning and inference where they are there.
    type: str
    default: ""
  of:
    description:
      - Further directories with results of a job, a sweep, tuning, inference or a network, a list or separated by
        commas.
    type: raw
    default: ""
  results:
    description: The directory into which results of jobs are fetched.
    type: path
    default: results
  to:
    description: The directory of the report. By default C(report) in the first directory of results.
    type: path
  price:
    description: What one host costs for an hour, a number with or without a currency, to show what an epoch costs.
    type: raw
    default: ""
  mixed:
    description: Whether results may be of different jobs, models or stacks.
    type: bool
    default: false
  page_only:
    description:
      - Whether only the page is written, as C(report.html) in the directory of the results of O(job). Without
        matplotlib the command that installs it is shown, and the task does not fail.
    type: bool
    default: false
seealso:
  - module: amx.cluster.job_info
"""

EXAMPLES = r"""
- name: Make a report of two sweeps
  amx.cluster.results_report:
    of: [results/demo-scale, other/results/demo-scale]
    to: comparison
    price: 2.30 USD
"""

RETURN = r"""
path:
  description: The page.
  type: str
  returned: success, unless with O(page_only=true) none could be made
url:
  description: The page as a URL for a browser.
  type: str
  returned: success, unless with O(page_only=true) none could be made
files:
  description: The names of the files of the report.
  type: list
  elements: str
  returned: success, unless O(page_only=true)
verdict:
  description: The first lines of the page.
  type: dict
  returned: success, unless O(page_only=true)
  sample: {number: 3.47x, unit: "on 4 hosts, 87 % of ideal"}
"""
