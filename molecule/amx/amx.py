"""Ask kernels with and without AMX for it on an emulated Sapphire Rapids, and compare what a user reads of each.

Called by verify.yml, see tests/support/journeys.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx, amx_text, doctor, onednn
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import Cluster
from ansible_collections.amx.cluster.plugins.module_utils._jobs import job_file, run_files, verification
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from support import real_jobs, runs
from support.amx_machine import Machine
from support.checkout import ROOT
from support.cluster import EPHEMERAL, PREFIX
from support.journeys import check, make
from support.sound_cluster import SHORT

DIRECTORY, LABEL = (EPHEMERAL / "machine").read_text(encoding="utf-8").splitlines()
MACHINE = Machine(Path(DIRECTORY), LABEL)
ENV, FILES = f"{PREFIX}/env", "/run/payload"
PYTHON, HOST = f"{ENV}/bin/python", "node0"
VERBOSE = {"ONEDNN_VERBOSE": "2"}
# The rank that `verify` starts on a host with one core.
RANK = {"rank": 0, "compute_cpus": [0], "comm_cpus": [], "domain_cpus": [0]}
RANK_ENV = {
    **{"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
    **{"AMX_CLUSTER_HOST": HOST, "OMP_NUM_THREADS": "1", "LD_PRELOAD": f"{ENV}/lib/libiomp5.so"},
    "PYTHONPATH": f"{FILES}/runtime",
}
FLAGS = ("amx_tile", "amx_bf16", "amx_int8")
SLOWER = ("WARNING: AMX cannot be used on node0, ", " in bf16 as avx512_bf16, slower.")


def module(name: str, **options: Any) -> dict[str, Any]:
    """Return the command that runs a module of the collection."""
    argv = ["python3", "-m", f"ansible_collections.amx.cluster.plugins.modules.{name}"]
    return {"argv": argv, "stdin": json.dumps({"ANSIBLE_MODULE_ARGS": options})}


def asked(*python: str) -> dict[str, Any]:
    """Return the command that gathers facts about AMX in an interpreter."""
    return module("amx_info", python=list(python))


def refusing(action: str, *words: str) -> tuple[str, ...]:
    """Return the command of an interpreter in which seccomp refuses arch_prctl."""
    return (PYTHON, f"{FILES}/refusing.py", action, *words)


def verifying(*python: str) -> dict[str, Any]:
    """Return the command that runs the rank of a verification, and prints its report as the last line."""
    script = 'mkdir -p /run/rank; cd /run/rank; echo "$PLAN" > plan.json; "$@" >&2; tr -d "\\n" < observed.json'
    plan = json.dumps({"backend": "gloo", "precision": "bf16"})
    return {"argv": ["sh", "-euc", script, "sh", *python], "env": {**RANK_ENV, "PLAN": plan}}


ASKED = {"amx_info": asked(PYTHON), "host_info": module("host_info", prefix=PREFIX, interpreters=False, software=False)}
PRODUCTS = {"products": {"argv": [PYTHON, f"{FILES}/products.py"], "env": VERBOSE}}
VERIFIED = {"verified": verifying(PYTHON, f"{FILES}/runtime/amx_cluster/verify_ranks.py")}
REFUSED = {
    "refused": asked(*refusing("errno")),
    "killed": asked(*refusing("kill")),
    "verified_refused": verifying(*refusing("errno", f"{FILES}/runtime/amx_cluster/verify_ranks.py")),
}
# What a launcher would give the rank of a job on this host alone.
LAUNCHED = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_PORT": "29500"}
STEPS = 3
# oneDNN's line of a product of two matrices in bf16.
PRODUCT = re.compile(
    r",exec,cpu,matmul,(?P<name>[^,]+),.*\bsrc:(?:\w*:)*?bf16:.*,(?P<rows>\d+)x(?P<inner>\d+):(?P=inner)x\d+,", re.ASCII
)


def training() -> tuple[dict[str, Any], dict[str, str]]:
    """Return the command that makes three steps of jobs/smoke.yml, and the files of its job directory, `smoke`.

    Data, plan, rank.py, observer and script are the job's own, without launcher and supervisor. The command prints the
    products that oneDNN ran, and what the observer has written of the last step as the last line.
    """
    override = {
        **{"launcher": "torchrun", "backend": "gloo", "env": {"ONEDNN_VERBOSE": "1"}},
        "args": {"do_train": True, "max_steps": STEPS, "logging_steps": 1},
    }
    made = Run(job_file.load(ROOT / "jobs/smoke.yml", override), Settings(head=HOST))
    stack = json.loads(MACHINE.installed_file(f"{ENV}/amx-cluster.json"))
    allocation = {
        "ranks": [{"compute_cpus": [0], "domain_cpus": [0]}],
        "env": {"OMP_NUM_THREADS": "1"},
        "threads_per_rank": 1,
        "core_map": runs.core_map("0"),
    }
    host = {"host": HOST, "address": "127.0.0.1", "interface": "lo", "isa": "amx", "allocation": allocation}
    plan = runs.planned(made, stack, [host], env=ENV, runtime=f"{FILES}/runtime")
    files = {**real_jobs.directory_files(made, plan, stack), "host": HOST}
    words = run_files.script_words(Plan.from_json(plan), made, stack)
    assert made.job.prepare is not None
    prepare = [PYTHON, made.job.prepare.script.name, *run_files.prepare_arguments(made.job)]
    script = f"""
        cp -r {FILES}/smoke /run/smoke; cd /run/smoke; {shlex.join(prepare)} >&2
        set -a; . ./env; set +a; "$@" > printed 2>&1 || {{ tail --lines 60 printed; exit 1; }}
        grep ,exec,cpu, printed || true; tr -d "\\n" < progress.json
    """
    command = {"argv": ["sh", "-euc", script, "sh", PYTHON, "-S", f"{FILES}/runtime", "rank", *words], "env": LAUNCHED}
    return command, {f"smoke/{name}": content for name, content in files.items()}


def answer(answers: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return what a command printed as its last line, in JSON."""
    said = answers[name]
    check(said["code"] == 0, f"{name} ended with exit code {said['code']}:\n{said['output'][-3000:]}\n{said['errors']}")
    found: dict[str, Any] = json.loads(said["output"].strip().splitlines()[-1])
    return found


def reads(judged: Mapping[str, Any], *sentences: str) -> list[str]:
    """Compare what a user reads of a judgement at the start of a playbook, and return it."""
    lines = amx_text.lines(amx_text.groups({HOST: judged})[0])
    text = " ".join(" ".join(lines).split())
    for sentence in sentences:
        check(filled(sentence, judged) in text, f"{filled(sentence, judged)!r} is not in:\n{text}")
    return lines


def filled(sentence: str, judged: Mapping[str, Any]) -> str:
    """Return a sentence with the names of the CPU and the kernel."""
    return sentence.format(cpu=judged["cpu"]["model"], release=judged["kernel"]["release"])


def examined(answers: Mapping[str, Mapping[str, Any]], require: str = "none") -> dict[str, str]:
    """Return what the doctor finds of AMX: {check: what is found, and the advice}."""
    info = answer(answers, "host_info")
    cluster = Cluster({HOST: {"facts": {}, "info": info, "sudo": {}}}, dataclasses.replace(SHORT, require=require))
    return {
        finding.check: f"{finding.severity}: {finding.found}. {finding.advice}."
        for finding in doctor.examine(cluster)
        if finding.check.startswith("amx")
    }


def verified(report: Mapping[str, Any], isa: str) -> str:
    """Return what `verify` says of AMX for the report of a rank on a host for which an instruction set was planned."""
    host = {"host": HOST, "isa": isa, "env": {"LD_PRELOAD": RANK_ENV["LD_PRELOAD"]}, "ranks": [RANK]}
    plan = Plan.from_json({"backend": "gloo", "precision": "bf16", "environment": ENV, "hosts": [host]})
    (found,) = (finding for finding in verification.compare(plan, report["ranks"]) if finding.what == "AMX")
    return f"{found.observed}, {'as planned' if found.ok else f'planned {found.planned}'}"


def multiplied(answers: Mapping[str, Mapping[str, Any]], *, with_amx: bool) -> list[str]:
    """Check that products are right, and by what oneDNN ran them, and return its lines."""
    errors = answer(answers, "products")
    check(errors["int8"] == 0 and errors["bf16"] < 0.25, f"the products are wrong by {errors}")
    ran = [line for line in answers["products"]["output"].splitlines() if ",exec,cpu,matmul," in line]
    for number in ("src:bf16:", "src:u8:"):
        of_it = [onednn.implementation(line) for line in ran if number in line]
        check(of_it and all(onednn.is_amx(name) == with_amx for name in of_it), f"{number} ran with {of_it}")
    return ran


def same(what: str, seen: object, wanted: object) -> None:
    """Raise WrongError unless something is what it should be."""
    check(seen == wanted, f"{what}: {seen!r} instead of {wanted!r}")


def seconds(answers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return how long each command took."""
    return "seconds: " + ", ".join(f"{name} {said['seconds']}" for name, said in answers.items())


def usable(answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Check what a kernel with AMX answers, and what it answers where seccomp refuses the request."""
    judged = answer(answers, "amx_info")
    same("amx_info", (judged["usable"], judged["reason"], judged["isa"]), (True, "usable", "amx"))
    same("found", judged["found"], filled("{cpu} shows AMX, and kernel {release} grants it", judged))
    lines = reads(judged, "AMX can be used on node0 ({cpu}, kernel {release})")
    same("the doctor", (examined(answers), examined(answers, "amx")), ({}, {}))
    lines += multiplied(answers, with_amx=True)
    same("verify", verified(answer(answers, "verified"), "amx"), "used, as planned")
    for name, cause in {"refused": ": Operation not permitted", "killed": " was killed by signal 31"}.items():
        refused = answer(answers, name)
        same(name, (refused["usable"], refused["reason"], refused["isa"]), (False, "kernel_refuses", "avx512_bf16"))
        lines += reads(refused, *SLOWER, f"{cause} ", "what to do: Allow arch_prctl ")
    wrong = verified(answer(answers, "verified_refused"), "amx")
    same("verify", wrong, "brg_matmul:avx512_core_bf16 instead (unknown to the kernel), planned used")
    return [*lines, f"verify where seccomp refuses arch_prctl: {wrong}", seconds(answers)]


def unusable(answers: Mapping[str, Mapping[str, Any]], reason: str, found: str, advice: str) -> list[str]:
    """Check what is said of a kernel that hides AMX, and that nothing computes with it though CPUID shows it."""
    judged = answer(answers, "amx_info")
    same("amx_info", (judged["usable"], judged["reason"], judged["isa"]), (False, reason, "avx512_bf16"))
    lines = reads(judged, *SLOWER, "found: {cpu} (Sapphire Rapids) has AMX, ", f": {found} what to do: {advice}; ")
    said = f"{judged['found']} (kernel {amx_text.rule(judged)}). {judged['advice']}."
    same("the doctor", examined(answers), {"amx_unused": f"warning: {said}"})
    same("the doctor where AMX is required", examined(answers, "amx"), {"amx": f"failure: {said}"})
    row = verified(answer(answers, "verified"), "avx512_bf16")
    same("verify", row, "brg_matmul:avx512_core_bf16 instead, as planned")
    return [*lines, f"verify: {row}", seconds(answers)]


def trained(answers: Mapping[str, Mapping[str, Any]], here: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Check that training computed with AMX, backwards too, and learnt as on this machine's own CPU."""
    progress = answer(answers, "trained")
    same("the steps made", progress["step"], STEPS)
    found = [PRODUCT.search(line) for line in answers["trained"]["output"].splitlines()]
    products = [(one["name"], int(one["rows"]), int(one["inner"])) for one in found if one]
    check(products, f"oneDNN ran no product in bf16:\n{answers['trained']['output'][-3000:]}")
    for name, _rows, _inner in products:
        check(onednn.is_amx(name), f"a product in training ran with {name}")
    # The first is of the first layer, whose input has a row for each token. A gradient of weights is a sum over tokens.
    tokens = products[0][1]
    backward = sum(inner == tokens for _name, _rows, inner in products)
    check(backward >= STEPS, f"{backward} of {len(products)} products are gradients of weights")
    lines = [
        f"{len(products)} products in {STEPS} steps ran with {products[0][0]}, {backward} are gradients of weights"
    ]
    wanted = answer(here, "trained")["metrics"]
    for name in ("loss", "grad_norm"):
        seen, other = progress["metrics"][name], wanted[name]
        check(abs(seen - other) <= 0.02 * other, f"{name} of step {STEPS}: {seen}, and {other} on this machine's CPU")
        lines.append(f"{name} of step {STEPS}: {seen:.5f}, and {other:.5f} on this machine's CPU")
    return lines


def a_kernel_with_amx() -> list[str]:
    return usable(MACHINE.run("6.1", {**ASKED, **PRODUCTS, **VERIFIED, **REFUSED}))


def a_kernel_without_amx() -> list[str]:
    answers = MACHINE.run("5.10", {**ASKED, **PRODUCTS, **VERIFIED})
    found = "kernel {release} does not support it"
    return [*unusable(answers, "kernel_too_old", found, amx.OLD_KERNEL), *multiplied(answers, with_amx=False)]


def flags_that_a_boot_parameter_clears() -> list[str]:
    answers = MACHINE.run("6.1", {**ASKED, **VERIFIED}, FLAGS)
    found = "it is disabled in the firmware or by a boot parameter"
    return unusable(answers, "switched_off", found, f"{amx.BOOT_PARAMETERS}, and enable AMX in the firmware")


def this_machine_where_it_has_amx() -> list[str]:
    judged = amx.judge(**amx.probe())
    if judged["reason"] != "usable":
        return [f"not compared with this machine: {judged['found']}"]
    return usable(MACHINE.run_here({**ASKED, **PRODUCTS, **VERIFIED, **REFUSED}))


def steps_of_a_job() -> list[str]:
    command, files = training()
    here = MACHINE.run_here({"trained": command}, files)
    answers = MACHINE.run("6.1", {"trained": command}, extra=files)
    return [*trained(answers, here), seconds(answers)]


# Two at a time: each takes a core.
JOURNEYS: Sequence[Sequence[Any]] = (
    (this_machine_where_it_has_amx,),
    (a_kernel_with_amx, a_kernel_without_amx),
    (flags_that_a_boot_parameter_clears, steps_of_a_job),
)

if __name__ == "__main__":
    sys.exit(make(JOURNEYS))
