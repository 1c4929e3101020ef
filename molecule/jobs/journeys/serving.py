"""A trained model is served by all hosts, beside a decoder, embeddings and a training: instances and a host are lost,
the model is replaced, no request is."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any

from journeys.installed import NAME
from openai import OpenAI, OpenAIError
from support.checkout import ROOT
from support.cluster import CONTAINERS, PREFIX, Play, addresses, directory, docker, on, status, train, until, words
from support.journeys import check
from support.load import Load

SERVER = f"{NAME}-serve"
# What jobs/csv.yml has learned.
LABELS = {
    "The parcel arrived three days late": "delivery",
    "I was charged twice this month": "billing",
    "Thank you, the best lamp I ever had": "praise",
}
AT_LENGTH = bool(os.environ.get("AMX_TEST_ALL"))
REQUESTS = 10_000 if AT_LENGTH else 3_000
# As `cluster_serving: true` does.
LINGER = "loginctl enable-linger train"
SERVE = ("-e", f"amx_job={NAME}", "-e", "{amx_override: {hosts: 3}, amx_serve_cores: 1}")
# Further servers: name, port, host by its place, model on the head.
DECODER, EMBEDDINGS = ("chat", 8010, 1, "/tmp/small_decoder/model"), ("vectors", 8020, 2, "/tmp/minilm")
BESIDE = (DECODER, EMBEDDINGS) if AT_LENGTH else ()
MAKE_MODELS = f"""
cp -rL {PREFIX}/cache/models/minilm-*/ /tmp/minilm &&
{PREFIX}/env/bin/python /tmp/small_decoder.py /tmp/small_decoder
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
    return isinstance(found, list) and [one["predicted_label"] for one in found] == list(LABELS.values())


def instances() -> dict[str, list[dict[str, Any]]]:
    """Return the instances of each host, by what its server writes."""
    texts = {host: on(host, f"cat {directory(SERVER)}/status.json") for host in CONTAINERS}
    return {host: json.loads(text)["instances"] if text else [] for host, text in texts.items()}


def states() -> dict[str, list[str]]:
    """Return the states of each host's instances."""
    return {host: [instance["state"] for instance in own] for host, own in instances().items()}


def serve_beside(name: str, port: int, place: int, model: str) -> None:
    """Serve a further model on one core of one host."""
    host = list(CONTAINERS)[place]
    given = {"amx_model": f"head:{model}", "amx_serve_name": name, "amx_serve_port": port, "amx_serve_cores": 1}
    Play("serve", "-e", json.dumps({**given, "amx_override": {"hosts": [host]}})).succeed()


def client(name: str, port: int, place: int, _model: str) -> OpenAI:
    """Return OpenAI's client of a further server."""
    return OpenAI(base_url=f"http://{addresses()[list(CONTAINERS)[place]]}:{port}/v1", api_key="none", max_retries=5)


def openai_is_answered() -> bool:
    """Tell whether the decoder writes, and like texts have like vectors; true where they are not served."""
    if not BESIDE:
        return True
    texts = ["The parcel is late", "My package has not arrived", "Two and two are four"]
    try:
        decoder, embeddings = (client(*server) for server in BESIDE)
        chat = decoder.chat.completions.create(
            model=decoder.models.list().data[0].id,
            messages=[{"role": "user", "content": "open"}],
            max_tokens=8,
            temperature=0,
        )
        vectors = embeddings.embeddings.create(model=embeddings.models.list().data[0].id, input=texts).data
    except OpenAIError:
        return False
    like, other = (sum(a * b for a, b in zip(vectors[0].embedding, vectors[n].embedding)) for n in (1, 2))
    return bool(chat.choices[0].message.content) and like > other


def all_hosts_serve_a_model() -> list[str]:
    """Serve what the installed archive has trained, and lose under load what can be lost."""
    hosts = list(CONTAINERS)
    for host in hosts:
        on(host, LINGER, user="root")
        if BESIDE:
            docker("update", "--cpuset-cpus", "0-1", CONTAINERS[host])
    if BESIDE:
        docker("cp", str(ROOT / "tests/support/small_decoder.py"), f"{CONTAINERS[hosts[0]]}:/tmp/small_decoder.py")
        on(hosts[0], MAKE_MODELS)
    for server in BESIDE:
        serve_beside(*server)
    check(openai_is_answered(), "OpenAI's client is not answered")
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
    if BESIDE:
        train(ROOT / "jobs/smoke.yml", "-e", "{amx_override: {hosts: 1}}").succeed()
        lines.append(f"a training on the other core of {hosts[0]}: {dict(load.outcomes)}")
    else:
        time.sleep(10)
    on(hosts[1], f"kill -9 {instances()[hosts[1]][0]['pid']}")
    check(until(lambda: states()[hosts[1]] != ["ready"]), "a killed instance was not noticed")
    check(until(lambda: states()[hosts[1]] == ["ready"]), f"{hosts[1]} has not come back: {states()}")
    lines.append(f"an instance killed and back: {dict(load.outcomes)}")
    docker("kill", CONTAINERS[hosts[2]])
    time.sleep(20)
    shown = words(Play("status", "-e", f"amx_job={SERVER}").wait())
    check("2 of 2 instances" in shown or "did not answer" in shown, f"status without a host:\n{shown[-2000:]}")
    docker("start", CONTAINERS[hosts[2]])
    check(until(lambda: states()[hosts[2]] == ["ready"]), f"{hosts[2]} does not serve again: {states()}")
    check(until(openai_is_answered), "OpenAI's client is not answered after the host came back")
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

    check(until(lambda: states() == {host: ["ready"] for host in hosts}), f"after the load: {states()}")
    shown = words(Play("status", "-e", f"amx_job={SERVER}").succeed())
    check("3 of 3 instances on 3 hosts answer" in shown, f"status:\n{shown[-2000:]}")
    for name in (SERVER, *(f"{server[0]}-serve" for server in BESIDE)):
        Play("stop", "-e", f"amx_job={name}").succeed()
    left = [host for host in hosts if on(host, "pgrep -f '[a]mx_cluster.inference.server'")]
    left += [host for host in hosts if on(host, "ls ~/.config/systemd/user/amx-cluster-*.service")]
    check(not left and status(SERVER).get("state") == "stopped", f"after the stop: {left}, {status(SERVER)}")
    for place, host in enumerate(hosts if BESIDE else []):
        docker("update", "--cpuset-cpus", str(place % 2), CONTAINERS[host])
    return [
        f"the model is served by {len(hosts)} hosts, each of which predicts the labels that were learned, also while",
        f"an instance was killed, a host was lost and came back, and the model was replaced: {outcomes}",
        *(["A decoder and embeddings beside it answered OpenAI's client, and a job trained."] if BESIDE else []),
        *lines,
    ]
