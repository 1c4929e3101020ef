# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of a job, or of an epoch of it, on hosts that are paid for by the hour."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Price:
    """Price of one host for an hour. currency: as it was written, empty without one."""

    amount: float
    currency: str

    @classmethod
    def read(cls, value: Any, name: str = "host_price_per_hour") -> Price | None:
        """Return the price in `2.5`, `2.5 USD` or `$2.5`; None for an empty one. Raises ValueError with its name."""
        written = str(value if value is not None else "").strip()
        if not written:
            return None
        match = re.fullmatch(r"(\D*?)\s*(\d+(?:\.\d+)?)\s*(\D*)", written)
        if not match or "-" in match[1]:
            raise ValueError(f"{name}: {written!r} is not a price such as 2.5 or '2.5 USD'")
        return cls(float(match[2]), (match[1] or match[3]).strip())

    def of(self, hosts: float | None, seconds: float | None) -> float | None:
        """Return what so many hosts cost for so many seconds; None where one of them is not known."""
        return None if hosts is None or seconds is None else self.amount * hosts * seconds / 3600

    def shown(self, cost: float) -> str:
        """Return a cost with its currency."""
        written = f"{cost:.2f}" if cost >= 0.1 else f"{cost:.2g}"
        return f"{written}{f' {self.currency}' if self.currency else ''}"


def host_seconds(attempts: Iterable[Mapping[str, Any]], hosts: float | None, seconds: float | None) -> float | None:
    """Return the seconds of all hosts of a run together: each attempt has its own hosts.

    attempts: as results.json has them. hosts, seconds: of the run, which count where its attempts tell neither.
    """
    total, unknown = 0.0, 0
    for attempt in attempts:
        if isinstance(attempt.get("seconds"), (int, float)):
            total += attempt["seconds"] * (len(attempt["hosts"]) if "hosts" in attempt else hosts or 0)
        else:
            unknown += 1
    if total and not unknown:
        return total
    return None if hosts is None or seconds is None else hosts * seconds


def of_run(
    written: str, attempts: Iterable[Mapping[str, Any]], hosts: int | None = None, seconds: float | None = None
) -> dict[str, Any] | None:
    """Return an estimate of what a run has cost, as results.json has it; None without a price of the inventory's.

    written: cluster_host_price_per_hour. The others: as in host_seconds. What is between attempts is not in it.

    Returns {"amount": number, "currency": text, "host_price_per_hour": as written}.
    """
    price = Price.read(written)
    if price is None:
        return None
    amount = price.of(1, host_seconds(attempts, hosts, seconds)) or 0.0
    return {"amount": round(amount, 4), "currency": price.currency, "host_price_per_hour": written}


def shown(cost: Mapping[str, Any] | None) -> str:
    """Return what a run has cost, as of_run has it, with its currency; empty where that is not known."""
    return Price(cost["amount"], cost["currency"]).shown(cost["amount"]) if cost else ""


def titled(title: str, price: Price | None) -> str:
    """Return the title of a column of costs, with the currency where there is one."""
    return f"{title}, {price.currency}" if price and price.currency else title
