"""A trained model is served by all hosts: instances and a host are lost, the model is replaced, no request is."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any

from journeys.installed import NAME
from support.cluster import CONTAINERS, Play, addresses, directory, docker, on, status, until, words
from support.journeys import check
from support.load import Load

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
        ! tr '\\0' '\\n' < $process/cmdline 2> /dev/null | grep -qx rank &&
        kill -9 ${process#/proc/} && exit
done
exit 1
"""
REQUESTS = 10_000 if os.environ.get("AMX_TEST_ALL") else 3_000
# As `cluster_serving: true` does.
LINGER = "loginctl enable-linger train"
SERVE = ("-e", f"amx_job={NAME}", "-e", "{amx_override: {hosts: 3}}")


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
    return isinstance(found, list) and [one["predicted_label"] for one in found] == list(LABELS.values())


def states() -> dict[str, list[str]]:
    """Return the states of each host's instances, by what its server writes."""
    states = {}
    for host in CONTAINERS:
        text = on(host, f"cat {directory(SERVER)}/status.json")
        states[host] = [instance["state"] for instance in json.loads(text)["instances"]] if text else []
    return states


def all_hosts_serve_a_model() -> list[str]:
    """Serve what the installed archive has trained, and lose under load what can be lost."""
    hosts = list(CONTAINERS)
    for host in hosts:
        on(host, LINGER, user="root")
    printed = words(Play("serve", *SERVE).succeed())
    where = {host: f"http://{addresses()[host]}:8000" for host in hosts}
    check(all(f"{host} {url}" in printed for host, url in where.items()), f"it shows:\n{printed[-2000:]}")
    check(all(answers(host) for host in hosts), f"labels: {[ask(host, {'text': 'late'}) for host in hosts]}")
    refused = ask(hosts[1], [{"text": "late"}, {"txt": "late"}])
    check(refused == {"error": "row 1 has no column text"}, f"of a row without the text: {refused}")
    again = words(Play("serve", *SERVE).succeed())
    check("is served by 3 instances" in again, f"the same command again:\n{again[-2000:]}")

    lines = []
    # The third host's address is not used: it is the one that is lost.
    load = Load([addresses()[host] for host in hosts[:2]], 8000, [{"text": text} for text in LABELS], 12)
    time.sleep(10)
    on(hosts[1], KILL_INSTANCE, user="root")
    check(until(lambda: states()[hosts[1]] != ["ready"]), "a killed instance was not noticed")
    check(until(lambda: states()[hosts[1]] == ["ready"]), f"{hosts[1]} has not come back: {states()}")
    lines.append(f"an instance killed and back: {dict(load.outcomes)}")
    docker("kill", CONTAINERS[hosts[2]])
    time.sleep(20)
    shown = words(Play("status", "-e", f"amx_job={SERVER}").wait())
    check("2 of 2 instances" in shown or "did not answer" in shown, f"status without a host:\n{shown[-2000:]}")
    docker("start", CONTAINERS[hosts[2]])
    check(until(lambda: states()[hosts[2]] == ["ready"]), f"{hosts[2]} does not serve again: {states()}")
    lines.append(f"a host lost and back: {dict(load.outcomes)}")
    replaced = words(Play("serve", *SERVE, "-e", "{amx_setting: {batch_size: 8}, amx_serve_replace: true}").succeed())
    check("is served by 3 instances" in replaced, f"of the replaced model:\n{replaced[-2000:]}")
    while sum(load.outcomes.values()) < REQUESTS and time.monotonic() - load.began < 600:
        time.sleep(1)
    outcomes = load.stop()
    lost = {outcome: count for outcome, count in outcomes.items() if outcome != "200"}
    # Those that the killed instance, and the instance of the lost host, had begun to answer, or were too busy to.
    check(sum(lost.values()) <= 12, f"lost requests: {outcomes}; {lines}")
    check(len(load.labels) == len(LABELS), f"answers: {load.labels}")

    shown = words(Play("status", "-e", f"amx_job={SERVER}").succeed())
    check("3 of 3 instances on 3 hosts answer" in shown, f"status:\n{shown[-2000:]}")
    Play("stop", "-e", f"amx_job={SERVER}").succeed()
    left = [host for host in hosts if on(host, "pgrep -f '[a]mx_cluster.inference.server'")]
    left += [host for host in hosts if on(host, "ls ~/.config/systemd/user/amx-cluster-*.service")]
    check(not left and status(SERVER).get("state") == "stopped", f"after the stop: {left}, {status(SERVER)}")
    return [
        f"the model is served by {len(hosts)} hosts, each of which predicts the labels that were learned, also while",
        f"an instance was killed, a host was lost and came back, and the model was replaced: {outcomes}",
        *lines,
    ]
