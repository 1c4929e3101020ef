# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the page of a job beside its results on the control node."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._measure.report import make, sources
from ansible_collections.amx.cluster.plugins.plugin_utils import screen


def write(job: str, results: Path) -> Path | None:
    """Write the page of a job's results, and show where it is; return its path.

    results: the directory with those of all jobs. What keeps the page from being made is shown, and is no failure.
    """
    directory = results / job
    try:
        try:
            read = sources.read(sources.of_job(job, results))
        except ValueError:
            # A sweep that lies there may be of another model or stack than the job's last run.
            read = sources.read([directory])
        page = make.write_page(read, directory.absolute())
    except (OSError, ValueError, LookupError, TypeError) as error:  # also what results of another version lack
        screen.show(f"No report was made: {error}")
        return None
    screen.write(f"The report is {page.as_uri()}")
    return page
