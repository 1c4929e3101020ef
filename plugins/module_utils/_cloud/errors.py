# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals of EC2, and what to do about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# As botocore writes the errors of the API.
CLIENT_ERROR = re.compile(
    r"An error occurred \((?P<code>[\w.]+)\) when calling the (?P<call>\w+) operation(?: \([^)]*\))?: (?P<said>.*)"
)
NO_CREDENTIALS = re.compile(
    r"Unable to locate credentials|NoCredentials|Partial credentials|config profile .* could not be found"
)
_CREDENTIALS = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for this command"
_KEYS = (
    "AuthFailure",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "RequestExpired",
)
_QUOTA = ("VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "VolumeLimitExceeded")
_CAPACITY = ("InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity")


def refused(code: str, call: str, message: str, where: str) -> str:
    """Return an error of the API as one sentence: which call, what it said, and what to do.

    code, message: the API's. call: such as RunInstances. where: the type and zone, or region, that it was about.
    """
    message = " ".join(message.split()).partition(" Encoded authorization")[0].rstrip(".")
    if code in ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException"):
        return (
            f"your AWS user is not allowed to call ec2:{call}: {message}. Have the "
            f"permission added to its policy (docs/cloud.md lists all that are needed)"
        )
    if code in _KEYS or code.startswith("ExpiredToken"):
        return f"AWS does not accept the credentials ({call}: {code}): {message}; {_CREDENTIALS}"
    if code in _QUOTA:
        return (
            f"a quota of the account does not allow {where} ({call}: {code}): {message}. Request a higher one under "
            "Service Quotas, EC2, in the AWS console, or rent fewer or smaller hosts (hosts, type)"
        )
    if code in _CAPACITY:
        return f"EC2 has no capacity for {where} now ({code}): {message}. Try again, or set another zone or type"
    if code == "SpotMaxPriceTooLow":
        return (
            f"max_price is below the spot price of {where} now: {message}. Set a higher max_price, or market: on-demand"
        )
    if code == "Unsupported":
        return f"{where} is not supported: {message}. Set another zone or type"
    return f"{call} failed for {where} ({code}): {message}"


def of_text(text: str, where: str) -> str:
    """Return the message of a failed module, or of botocore, as refused() returns it; as it is where it is another."""
    match = CLIENT_ERROR.search(" ".join(text.split()))
    if match:
        return refused(match["code"], match["call"], match["said"], where)
    if text.endswith("Failed to create image"):
        return (
            "EC2 refused CreateImage, and amazon.aws does not pass the reason on: check that your AWS user is allowed "
            "to call ec2:CreateImage and ec2:CreateTags, and that no image has this name (image_name)"
        )
    if NO_CREDENTIALS.search(text):
        return f"there are no AWS credentials: {_CREDENTIALS}"
    return " ".join(text.split())


def of_results(results: Sequence[Mapping[str, Any]], where: str) -> str:
    """Return why tasks failed, also those of which the failure was kept from ending the play; empty where none did.

    results: of tasks, also of loops. where: as in refused.
    """
    each = [item for result in results for item in result.get("results", [result])]
    messages = [(item.get("failed"), " ".join(str(item.get("msg", "a task failed")).split())) for item in each]
    failed = [text for is_failed, text in messages if is_failed or CLIENT_ERROR.search(text)]
    return "; ".join(dict.fromkeys(of_text(text, where) for text in failed))
