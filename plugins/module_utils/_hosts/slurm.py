# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Slurm, as scontrol shows them on a login host, and its times."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# As sbatch takes it (sbatch(1)): minutes, minutes:seconds, hours:minutes:seconds, and each after days-.
TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
# Seconds that Slurm's controller has to answer.
PATIENCE = 20


def settings_of_slurm(_prefix: Path) -> dict[str, Any]:
    """Return {slurm: {config, partitions}} as scontrol shows them, or {slurm: {error}}; {slurm: None} without it."""
    if shutil.which("scontrol") is None:
        return {"slurm": None}
    texts = []
    for words in (("show", "config"), ("show", "partition", "--oneliner")):
        try:
            ran = subprocess.run(["scontrol", *words], capture_output=True, text=True, check=False, timeout=PATIENCE)
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"slurm": {"error": str(error)}}
        if ran.returncode:
            return {"slurm": {"error": " ".join(ran.stderr.split())}}
        texts.append(ran.stdout)
    return {"slurm": {"config": parse_config(texts[0]), "partitions": parse_partitions(texts[1])}}


def parse_config(text: str) -> dict[str, str]:
    """Return the settings that `scontrol show config` prints, those of control groups among them."""
    lines = (line.split(" = ", 1) for line in text.splitlines() if " = " in line)
    return {name.strip(): value.strip() for name, value in lines}


def parse_partitions(text: str) -> dict[str, dict[str, str]]:
    """Return the partitions that `scontrol show partition --oneliner` prints, by name."""
    rows = (dict(word.split("=", 1) for word in line.split() if "=" in word) for line in text.splitlines())
    return {row["PartitionName"]: row for row in rows if "PartitionName" in row}


def over_limit(partition: Mapping[str, str], time: object) -> str:
    """Return which limit of its partition a time is over, as Slurm shows it; empty where it is not.

    partition: as parse_partitions returns it. time: as TIME has it.
    """
    limit, wanted = partition.get("MaxTime", ""), str(time)
    is_unlimited = bool(TIME.fullmatch(wanted)) and not seconds(wanted)  # 0 is no limit to Slurm
    return limit if seconds(limit) and (is_unlimited or seconds(limit) < seconds(wanted)) else ""


def seconds(time: str) -> int:
    """Return the seconds of a time as TIME has it, or as scontrol shows it; 0 where there is no limit.

    Between a number of days and the first colon are hours, else minutes or hours.
    """
    match = TIME.fullmatch(time)
    if not match:
        return 0
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1] or match[4]:
        return ((days * 24 + first) * 60 + second) * 60 + third
    return first * 60 + second
