# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package indexes: the options that modules have for them, which of them answer, and pip's variables for them."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.amx.cluster.plugins.module_utils._text import LOGIN, masked

# As the fragment amx.cluster.package_indexes documents them.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "index_timeout": {"type": "int", "default": 5},
    "ca_certificate": {"type": "path"},
    "proxy": {"type": "str"},
    "credentials": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "host": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
        },
    },
}
# As its part `choice` documents them.
CHOICE: dict[str, dict[str, Any]] = {
    "index_url": {"type": "str"},
    "index_urls": {"type": "list", "elements": "str", "default": []},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "sources": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "option": {"type": "str", "required": True},
            "url": {"type": "str", "required": True},
            "origin": {"type": "str", "required": True},
            "package": {"type": "str", "default": ""},
        },
    },
}
# Instead of a URL: no index at all, and the one that pip uses by itself.
NONE, DEFAULT = "none", "default"
# The index that pip uses by itself, for which a control node may have a mirror configured.
PYPI = "https://pypi.org/simple"
# Options of pip that say where packages come from, and the variables of the inventory in their place.
VARIABLES = {
    "--index-url": "torch_stack_index_url",
    "--extra-index-url": "torch_stack_index_urls",
    "--find-links": "torch_stack_find_links",
}
NO_INDEX, ELSEWHERE = "--no-index", "elsewhere"

# The options of pip that say how packages are reached, and their variables. No other option of a user's takes effect
# when the collection runs pip: one that changes where packages go, or which are taken, would break it.
REACH = {
    "index_url": "PIP_INDEX_URL", "extra_index_urls": "PIP_EXTRA_INDEX_URL", "find_links": "PIP_FIND_LINKS",
    "no_index": "PIP_NO_INDEX", "trusted_hosts": "PIP_TRUSTED_HOST", "cert": "PIP_CERT",
    "client_cert": "PIP_CLIENT_CERT", "proxy": "PIP_PROXY", "timeout": "PIP_TIMEOUT", "retries": "PIP_RETRIES",
    "resume_retries": "PIP_RESUME_RETRIES", "keyring_provider": "PIP_KEYRING_PROVIDER", "cache_dir": "PIP_CACHE_DIR",
    "features_enabled": "PIP_USE_FEATURE", "deprecated_features_enabled": "PIP_USE_DEPRECATED",
    "constraints": "PIP_CONSTRAINT", "build_constraints": "PIP_BUILD_CONSTRAINT",
}  # fmt: skip
# What pip takes for some of them as well.
ALIASES = ("PIP_PYPI_URL", "PIP_DEFAULT_TIMEOUT", "PIP_NO_CACHE_DIR")

# Says why a URL does not answer within some seconds, or nothing: (URL, its credentials {host, user, password} or None).
Ask = Callable[[str, "Mapping[str, str] | None"], str]


# What all versions of Python read from a netrc file as it is written: those before 3.11 know no quotes, others take a
# backslash for an escape.
IN_NETRC = re.compile(r"[!#-\[\]-~][!-\[\]-~]*")


def logins(value: object) -> set[str]:
    """Return what the URLs in a value, such as the options of a module, have before their hosts: USER:PASSWORD@."""
    if isinstance(value, Mapping):
        return logins(list(value.values()))
    if isinstance(value, (list, tuple)):
        return {login for item in value for login in logins(item)}
    return set(LOGIN.findall(value)) if isinstance(value, str) else set()


def without_logins(value: Any) -> Any:
    """Return a value, such as a stack, without the users and passwords of the URLs in it."""
    if isinstance(value, Mapping):
        return {key: without_logins(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_logins(item) for item in value]
    return LOGIN.sub("", value) if isinstance(value, str) else value


def netrc(credentials: Iterable[Mapping[str, str]]) -> str:
    """Return a netrc file, from which pip reads how to log in, of credentials {host, user, password}.

    Raises ValueError for those that such a file cannot hold.
    """
    for login in credentials:
        for field in ("user", "password"):
            if not IN_NETRC.fullmatch(login[field]):
                raise ValueError(
                    f"the {field} in the credentials for {login['host']} cannot be written into a netrc file, from "
                    "which pip reads it: it is empty, or has a space, a backslash, a character that is not ASCII, or a "
                    "quotation mark at its beginning. Change it, or write user and password into the URL of the index, "
                    f"percent-encoded (a space is %20), such as https://USER:PASSWORD@{login['host']}/simple"
                )
    return "".join(f"machine {c['host']} login {c['user']} password {c['password']}\n" for c in credentials)


def variables(options: Mapping[str, Any], scratch: Path, certificate: str | None = None) -> dict[str, str]:
    """Return the variables by which pip reaches indexes with these options, the values of ARGUMENTS.

    scratch: a directory of this run alone, for the file with the credentials. certificate: the one by which indexes are
    trusted where the options name none.
    """
    made: dict[str, str] = {}
    trusted = options["ca_certificate"] or certificate
    if trusted:
        made["PIP_CERT"] = trusted
    made.update(proxies(options["proxy"]))
    if options["credentials"]:
        file = scratch / "netrc"
        file.touch(mode=0o600)
        file.write_text(netrc(options["credentials"]), encoding="utf-8")
        made["NETRC"] = str(file)
    return made


def proxies(proxy: str | None) -> dict[str, str]:
    """Return the variables by which programs use a proxy, which pip takes without http:// as well."""
    if not proxy:
        return {}
    url = proxy if "://" in proxy else f"http://{proxy}"
    return dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), url)


def unreachable(
    urls: Collection[str], credentials: Iterable[Mapping[str, str]], ask: Ask, seconds: float
) -> dict[str, str]:
    """Return {url: why it does not answer} for those that do not; all are asked at once, for so many seconds."""
    reasons = dict.fromkeys(urls, f"no answer within {seconds} s")
    logins = {login["host"]: login for login in credentials}

    def try_one(url: str) -> None:
        host = re.sub(r"^\w+://([^/@]*@)?", "", url).partition("/")[0].partition(":")[0]
        reasons[url] = ask(url, logins.get(host))

    # The name service knows no time limit, so the threads are left to themselves when time is up.
    threads = [threading.Thread(target=try_one, args=(url,), daemon=True) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    return {url: reason for url, reason in reasons.items() if reason}


def shielded(environ: Mapping[str, str], kept: Collection[str] = ()) -> dict[str, str]:
    """Return the variables that keep pip from its configuration: its files, and those of its variables that are set
    here, but for these. For pip, an empty variable is none."""
    cleared = {name: "" for name in environ if name.startswith("PIP_") and name not in kept}
    return {**cleared, "PIP_CONFIG_FILE": os.devnull}


def on_control_node(
    options: Mapping[str, Any], main: str, settings: Mapping[str, Any], silent: Collection[str], scratch: Path
) -> dict[str, str]:
    """Return the variables of pip on the control node: it reaches indexes as it is configured there (pip.settings) and
    as the options say, and has nothing else of its configuration.

    main, silent: see search. scratch: see variables.
    """
    made = shielded(os.environ)
    for option, variable in REACH.items():
        value = settings.get(option)
        if option == "cache_dir" and value is False:
            made["PIP_NO_CACHE_DIR"] = "1"
        elif value:
            made[variable] = " ".join(map(str, value)) if isinstance(value, list) else f"{value}"
    reached = variables(options, scratch, settings.get("cert"))
    return {**made, **reached, "PIP_NO_INDEX": "", **search(options, main, settings, silent)}


def search(
    options: Mapping[str, Any], main: str, settings: Mapping[str, Any], silent: Collection[str]
) -> dict[str, str]:
    """Return the variables by which pip on the control node looks for wheels in the indexes that answer.

    options: {index_urls, find_links}. main: the main index, or NONE. settings: see pip.settings. silent: the indexes
    that do not answer. In variables and not as arguments: a URL may hold a password, and everyone sees arguments.
    """
    mains = [] if main == NONE else [main]
    answering = [url for url in [*mains, *options["index_urls"]] if url not in silent]
    links = [url for url in options["find_links"] if url not in silent]
    # What pip.conf names beside the main index is searched although that one does not answer.
    urls = [*answering, *([] if main == NONE else settings.get("extra_index_urls", []))]
    return {
        "PIP_INDEX_URL": urls[0] if urls else "",
        **({} if urls and main != NONE else {"PIP_NO_INDEX": "1"}),
        "PIP_EXTRA_INDEX_URL": " ".join(urls[1:]),
        "PIP_FIND_LINKS": " ".join([*links, *settings.get("find_links", [])]),
    }


def without_effect(
    sources: Iterable[Mapping[str, str]],
    requested: Collection[str],
    used: Mapping[str, Sequence[str]],
    configured: Mapping[str, Any],
    silent: Mapping[str, str],
) -> list[str]:
    """Return why packages would not come from where a project says that they do, each with what to do.

    Nothing else is searched instead: an index for everybody may have another package of the same name.

    sources: as packaging_files.Source. requested: canonical names of the packages that are looked for. used: {option of
    VARIABLES: the URLs in the inventory}, none for the main index where there is none. configured: see pip.settings,
    whose URLs are searched as well. silent: {URL: why it does not
    answer}.
    """
    reasons = []
    for source in sources:
        option, url, package = source["option"], source["url"], source.get("package", "")
        if package and package not in requested:
            continue
        head = masked(f"{source['origin']}: ")
        searched_url = masked(f"{option} {url}" + (f" for {package}" if package else ""))
        searched = used.get(option, ())
        lists = {"--extra-index-url": "extra_index_urls", "--find-links": "find_links"}
        others = configured.get(lists[option], []) if option in lists else []
        if option == ELSEWHERE:
            reasons.append(
                f"{head}{package} comes from {masked(url)}, which is not read: write {package} @ git+URL@REF for a "
                "repository among the dependencies, or add its wheel to `wheels` in the job file"
            )
        elif option == NO_INDEX:
            if used["--index-url"] or used["--extra-index-url"]:
                reasons.append(
                    f"{head}{NO_INDEX} conflicts with the inventory: set torch_stack_index_url: none and "
                    f"torch_stack_index_urls: [] there, or remove {NO_INDEX}"
                )
        elif _plain(url) == PYPI and option != "--find-links":
            continue
        elif _plain(url) not in map(_plain, [*searched, *others]):
            value = _plain(url)
            if option != "--index-url":
                value = f"[{', '.join([*map(_plain, searched), value])}]"
            reasons.append(
                f"{head}{searched_url} is not searched: set {VARIABLES[option]}: {value} in the inventory (user and "
                "password in torch_stack_index_credentials), or remove it"
            )
        else:
            reasons += [
                f"{head}{searched_url} does not answer, and nothing else is searched instead: {masked(reason)}"
                for address, reason in silent.items()
                if _plain(address) == _plain(url)
            ]
    return reasons


def _plain(url: str) -> str:
    return LOGIN.sub("", url).rstrip("/")


def search_from_host(options: Mapping[str, Any], directory: str) -> dict[str, str]:
    """Return the variables by which pip on a host finds wheels, without this host's own configuration of pip.

    options: {index_urls, find_links, index_timeout}, the first index the main one or DEFAULT; without any, pip uses no
    network. directory: a directory with wheels.
    """
    links, urls = [directory, *options["find_links"]], options["index_urls"]
    # Plain HTTP is enough for what is verified by its SHA-256 anyway.
    plain = [urlsplit(url).netloc.rpartition("@")[2] for url in [*urls, *links] if url.startswith("http://")]
    made = {
        **shielded(os.environ, {*REACH.values(), *ALIASES} - {"PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"}),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_FIND_LINKS": " ".join(links),
        "PIP_EXTRA_INDEX_URL": " ".join(urls[1:]),
        "PIP_TRUSTED_HOST": " ".join(plain),
        "PIP_RETRIES": "1",
        "PIP_TIMEOUT": str(options["index_timeout"]),
    }
    if urls[:1] != [DEFAULT]:
        made["PIP_INDEX_URL"] = urls[0] if urls else ""
    if not urls:
        made["PIP_NO_INDEX"] = "1"
    return made
