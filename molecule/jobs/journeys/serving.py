"""A trained model is served by all hosts: each answers, an instance is killed and comes back, and it is stopped."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from journeys.installed import NAME
from support.cluster import CONTAINERS, Play, addresses, on, status, until, words
from support.journeys import check

SERVER = f"{NAME}-serve"
# What jobs/csv.yml has learned.
LABELS = {
    "The parcel arrived three days late": "delivery",
    "I was charged twice this month": "billing",
    "Thank you, the best lamp I ever had": "praise",
}
KILL_INSTANCE = """
for process in /proc/[0-9]*; do
    tr '\\0' '\\n' < $process/cmdline 2> /dev/null | grep -qx amx_cluster.inference.server &&
        kill -9 ${process#/proc/} && exit
done
exit 1
"""


def ask(host: str, content: Any) -> Any:
    """Return what a host's server answers; None where it accepts no connection."""
    url = f"http://{addresses()[host]}:8000/predict"
    try:
        with urllib.request.urlopen(url, json.dumps(content).encode(), timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)
    except OSError:
        return None


def answers(host: str) -> bool:
    """Tell whether a host predicts the labels that were learned."""
    found = ask(host, [{"text": text} for text in LABELS])
    return bool(found) and [one["predicted_label"] for one in found] == list(LABELS.values())


def all_hosts_serve_a_model() -> list[str]:
    """Serve what the installed archive has trained; kill an instance; serve again; stop."""
    hosts = list(CONTAINERS)
    printed = words(Play("serve", "-e", f"amx_job={NAME}").succeed())
    where = {host: f"http://{addresses()[host]}:8000" for host in hosts}
    check(all(f"{host} {url}" in printed for host, url in where.items()), f"it shows:\n{printed[-2000:]}")
    check(all(answers(host) for host in hosts), f"labels: {[ask(host, {'text': 'late'}) for host in hosts]}")
    refused = ask(hosts[1], [{"text": "late"}, {"txt": "late"}])
    check(refused == {"error": "row 1 has no column text"}, f"of a row without the text: {refused}")

    on(hosts[1], KILL_INSTANCE, user="root", fails=False)
    others = [host for host in hosts if host != hosts[1]]
    check(all(answers(host) for host in others), "an instance was killed, and other hosts do not answer")
    check(until(lambda: answers(hosts[1])), f"{hosts[1]} has not come back")
    check(len(status(SERVER).get("attempts", [])) == 1, f"the job was started again: {status(SERVER)}")
    again = words(Play("serve", "-e", f"amx_job={NAME}").succeed())
    check("is served by" in again, f"the same command again:\n{again[-2000:]}")

    Play("stop", "-e", f"amx_job={SERVER}").succeed()
    left = [host for host in hosts if on(host, "pgrep -f '[s]erver.py --request'") or ask(host, {"text": "late"})]
    check(not left and status(SERVER).get("state") == "stopped", f"after the stop: {left}, {status(SERVER)}")
    return [
        f"the model is served by {len(hosts)} hosts, each of which predicts the labels that were learned; an instance "
        "was killed, came back, and the others answered meanwhile; stopped, nothing is left"
    ]
