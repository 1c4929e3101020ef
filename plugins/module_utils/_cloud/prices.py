# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Price of a host, in USD per hour."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Price:
    """amount: USD an hour for one host, None where it is not known. source: where it is from, or why it is missing."""

    amount: float | None
    source: str


def of_file(document: object, instance_type: str, path: str) -> Price:
    """Return the price in a file of the user's, {type: USD an hour}. Raises ValueError, which names the file."""
    if not isinstance(document, Mapping):
        raise ValueError(f"{path}: expected a mapping such as {instance_type}: 3.2")
    value = document.get(instance_type)
    if value is None:
        raise ValueError(f"{path} has no price of {instance_type}: add {instance_type}: PRICE, in USD an hour")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ValueError(f"{path}: {value!r} is not a price of {instance_type} in USD an hour")
    return Price(float(value), path)


def filters(instance_type: str, region: str) -> list[dict[str, str]]:
    """Return the filters with which GetProducts of AWS's price list returns a Linux host on demand."""
    wanted = {
        "instanceType": instance_type,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    return [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]


def of_products(listed: Iterable[str]) -> Price:
    """Return the price in an answer of GetProducts. listed: its PriceList, each product as JSON."""
    for product in map(json.loads, listed):
        for term in product.get("terms", {}).get("OnDemand", {}).values():
            for dimension in term["priceDimensions"].values():
                amount = float(dimension["pricePerUnit"].get("USD", 0))
                if dimension.get("unit") == "Hrs" and amount > 0:
                    return Price(amount, "AWS price list")
    return Price(None, "the AWS price list has none")


def of_spot_history(history: Iterable[Mapping[str, Any]], zone: str) -> Price:
    """Return the spot price now. history: SpotPriceHistory of DescribeSpotPriceHistory, the newest first."""
    for entry in history:
        if entry.get("AvailabilityZone") == zone:
            return Price(float(entry["SpotPrice"]), "spot price now")
    return Price(None, f"EC2 tells no spot price in {zone}")
