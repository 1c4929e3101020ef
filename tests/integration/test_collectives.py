"""Backend mpi beside gloo in the same run, under real Intel MPI: collectives, ways to train, ways to fail."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from support.at_length import only_at_length
from support.mpi_ranks import JUDGES, PACKAGES, run


# Every rank of four would share a core with another one here.
@pytest.mark.parametrize(
    ("ranks", "parts", "least"),
    [
        pytest.param(1, ["the_rest"], 15, marks=only_at_length("a group of one rank calls nothing of MPI")),
        (2, ["the_rest", "functional", "movements", "reductions"], 3000),
        (3, ["the_rest"], 20),
    ],
)
def test_every_collective_agrees_with_gloo(environment: Path, ranks: int, parts: list[str], least: int) -> None:
    done = run(environment, ranks, str(JUDGES / "judge_collectives.py"), *parts)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "DIFFERS" not in done.stdout, done.stdout[:3000]
    checked = [int(number) for number in re.findall(r"checked (\d+)", done.stdout)]
    assert len(checked) == ranks
    assert min(checked) >= least


def test_collectives_on_a_communication_core_agree_with_gloo(environment: Path) -> None:
    cpu = str(max(os.sched_getaffinity(0)))
    env = {"AMX_CLUSTER_MPI_CPUS": cpu}
    done = run(environment, 2, str(JUDGES / "judge_collectives.py"), "the_rest", "functional", env=env)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "DIFFERS" not in done.stdout, done.stdout[:3000]
    assert done.stdout.count("checked ") == 2


def test_every_way_to_train_gives_the_same_losses(environment: Path) -> None:
    done = run(environment, 2, str(JUDGES / "judge_training.py"))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "DIFFERS" not in done.stdout, done.stdout[:3000]
    assert done.stdout.count("same losses") == 2 * 11


FAILS = """
import os, sys, time
from datetime import timedelta
import amx_cluster_mpi, torch, torch.distributed as dist
dist.init_process_group("mpi", timeout=timedelta(seconds=6))
rank = dist.get_rank()
dist.all_reduce(torch.ones(10))
if rank == 1:
    {what}
dist.all_reduce(torch.ones(10))
print("ended")
"""
FAULTS = {
    "a rank that raises": ("raise ValueError('broken')", "ValueError: broken"),
    "a rank that leaves": ("sys.exit(3)", "BAD TERMINATION"),
    "a rank that is killed": ("os.kill(os.getpid(), 9)", "KILLED BY SIGNAL: 9"),
    "a rank that does not come": (
        "time.sleep(1000)",
        "rank 0 on .*: all_reduce of 10 float32, number 2 in the group of ranks 0, 1, has not ended within its "
        "timeout of 6 s: rank 1 has not called it",
    ),
    "a rank that has ended": ("sys.exit(0)", "has not ended within [345].* s: rank 1 ended without calling it"),
    "a rank that raises SystemExit": (
        "raise SystemExit(3)",
        "has not ended within [345].* s: rank 1 ended without calling it",
    ),
    "a rank that waited for others before": (
        "dist.all_reduce(torch.ones(10)); time.sleep(1000)\ntime.sleep(4)\ndist.all_reduce(torch.ones(10))",
        "number 3 in the group .*: rank 1 has not called it, and was last in all_reduce of 10 float32, number 2",
    ),
    "another collective": (
        "dist.broadcast(torch.ones(5), 0)",
        r"rank \d is at (broadcast of 5|all_reduce of 10) float32, number 2|"  # it waits, or MPI notices the sizes
        r"(broadcast of 5|all_reduce of 10) float32, number 2 in the group of ranks 0, 1: Other MPI error",
    ),
    "a rank that has left": ("os._exit(0)", "has not ended within .* s: rank 1 ended without calling it"),
    "a message that is not sent": (
        "dist.recv(torch.ones(3), 0)",
        "recv from rank 0 in the group of ranks 0, 1, has not ended within its timeout of 6 s: rank 0 has not sent it",
    ),
    "a message of a rank that has ended": (
        "sys.exit(0)\nif rank == 0:\n    dist.recv(torch.ones(3), 1)",
        r"recv from rank 1 in the group of ranks 0, 1, has not ended within [345].* s: rank 1 ended without sending it",
    ),
    "a message of a rank that has left, awaited by its future": (
        "os._exit(0)\nif rank == 0:\n    dist.irecv(torch.ones(3), 1).get_future().wait()",
        r"recv from rank 1 in the group of ranks 0, 1, has not ended within .* s: rank 1 ended without sending it",
    ),
    "a communication thread that ends": (
        "amx_cluster_mpi.group.runtime().progress.eager = None; dist.irecv(torch.ones(1), 0)\n"
        "    time.sleep(1); dist.barrier()",
        "the communication thread has ended: TypeError",
    ),
}


# What ends as another one of FAULTS does.
ALIKE = {
    "a rank that leaves": "a rank that raises",
    "a rank that raises SystemExit": "a rank that has ended",
    "a message that is not sent": "a rank that does not come",
    "a message of a rank that has left, awaited by its future": "a message of a rank that has ended",
    "a message of a rank that has ended": "a rank that has ended",
    "a rank that waited for others before": "a rank that does not come",
    "a rank that has left": "a rank that has ended",
    "a rank that is killed": "a rank that raises",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[only_at_length(f"as {ALIKE[name]}")] if name in ALIKE else []) for name in FAULTS],
)
def test_a_fault_ends_all_ranks_with_a_message(environment: Path, tmp_path: Path, name: str) -> None:
    what, message = FAULTS[name]
    script = tmp_path / "fails.py"
    script.write_text(FAILS.format(what=what))
    done = run(environment, 2, str(script), timeout=240)  # what a rank sleeps is longer
    assert done.returncode != 0
    assert re.search(message, done.stdout), done.stdout[-3000:]
    assert "ended\n" not in done.stdout


RUNS = {
    "messages that nobody waits for": """
for _place in range(200):
    dist.irecv(torch.zeros(1000), 1 - rank, tag=5)
for _place in range(100):
    dist.isend(torch.ones(1000), 1 - rank, tag=5)
others = [torch.zeros(1000) for _place in range(300)]
dist.barrier()
time.sleep(0.5)
dist.barrier()
assert not any(other.any() for other in others)
""",
    "messages that are waited for are watched no longer": """
from amx_cluster_mpi.runtime import runtime
for _place in range(20):
    work = dist.isend(torch.ones(1000), 1 - rank) if rank else dist.irecv(torch.ones(1000), 1 - rank)
    time.sleep(0.01 * rank)
    work.wait()
dist.barrier()
assert not runtime().watchdog.calls, runtime().watchdog.calls
""",
    "a SystemExit that is caught": """
try:
    sys.exit(3)
except SystemExit:
    pass
time.sleep(3 * rank)
""",
    "a thread that leaves": """
thread = threading.Thread(target=sys.exit, args=(3,))
thread.start()
thread.join()
time.sleep(3 * rank)
""",
    "a forked process that leaves": """
child = os.fork()
if not child:
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
dist.barrier()
""",
    "an operation that goes on while its rank waits for another one": """
values, large = torch.ones(10), torch.ones(3_000_000)
if rank == 0:
    work = dist.all_reduce(values, async_op=True)
    dist.send(large, 1)
    work.wait()
else:
    dist.recv(large, 0)
    dist.all_reduce(values)
assert values.eq(2).all()
""",
    "groups in another order": """
groups = [dist.new_group([0, 1]) for _group in range(2)]
values = [torch.ones(3_000_000) for _group in groups]
works = [dist.all_reduce(values[place], group=groups[place], async_op=True) for place in ((0, 1), (1, 0))[rank]]
for work in works:
    work.wait()
assert all(one.eq(2).all() for one in values)
""",
    "callbacks that wait for collectives": """
def sum_again(ended):
    return dist.all_reduce(ended.value()[0] * 2, async_op=True).get_future().wait()[0]
def sum_once_more(ended):
    return dist.all_reduce(ended.value() * 2, async_op=True).get_future().wait()[0]
found = []
for place in range(20):  # ranks begin some of these before the callbacks of those before them, and some after
    time.sleep(0.01 * ((place + rank) % 2))
    future = dist.all_reduce(torch.full((1000,), place + 1.0), async_op=True).get_future()
    found.append(future.then(sum_again).then(sum_once_more))
assert all(one.wait().eq(32.0 * (place + 1)).all() for place, one in enumerate(found))
""",
    "work that is waited for late": """
values = torch.ones(10)
work = dist.all_reduce(values, async_op=True)
time.sleep(2)
assert work.is_completed() and values.eq(2).all()
work.wait()
""",
    "a part of the input as the output": """
source = torch.arange(4.0)
dist.reduce_scatter_tensor(source[2 * rank : 2 * rank + 2], source)
assert source[2 * rank : 2 * rank + 2].tolist() == [4.0 * rank, 4.0 * rank + 2]
both = torch.arange(2.0) + 2 * rank
dist.all_to_all_single(both, both)
assert both.tolist() == [rank, rank + 2]
""",
    "inference mode": """
with torch.inference_mode():
    found = [torch.empty(3, 5) for _rank in range(2)]
    dist.all_gather(found, torch.ones(5, 3).t())
    dist.all_reduce(strided := torch.ones(4, 3).t())
    dist.all_reduce(half := torch.ones(20, dtype=torch.bfloat16), dist.ReduceOp.AVG)
assert found[1].eq(1).all() and strided.eq(2).all() and half.eq(1).all()
""",
    # The last thing that a script does.
    "rank 0 at work after the others": "time.sleep(0 if rank else 8)",
}


COMPRESSED = """
import amx_cluster_mpi, torch, torch.distributed as dist, torch.nn.parallel.distributed as ddp
from amx_cluster_mpi.compression import watch_ddp
watch_ddp(ddp)
dist.init_process_group("mpi")
for options in ({}, {"static_graph": True}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
    torch.manual_seed(1)
    model = ddp.DistributedDataParallel(torch.nn.Linear(20, 20), **options)
    model(torch.full((4, 20), 1.0 + dist.get_rank())).sum().backward()
    assert model._comm_hooks and model.module.weight.grad.eq(6).all()
    compiled = torch.compile(model, backend="aot_eager")
    for _step in range(3):  # at the second, C++ rebuilds the buckets by a broadcast
        compiled(torch.ones(4, 20)).sum().backward()
print("compressed")
"""


def test_gradients_are_compressed(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(COMPRESSED)
    done = run(environment, 2, str(tmp_path / "script.py"), timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.count("compressed") == 2, done.stdout[-3000:]


TOUCHED = """
import amx_cluster_mpi, torch, torch.distributed as dist
from amx_cluster_mpi import reductions, touched
touched.PAUSE = 2
lengths, chunks = [], reductions.chunks
reductions.chunks = lambda flat: lengths.append(flat.numel()) or chunks(flat)
dist.init_process_group("mpi")
rank, ranks = dist.get_rank(), dist.get_world_size()
for dtype in torch.float32, torch.float64, torch.bfloat16:
    count = touched.LARGE // dtype.itemsize + 3  # three elements beyond the last block
    each = touched.BLOCK // dtype.itemsize
    mine = torch.zeros(count, dtype=dtype)
    mine[rank * 5 * each] = 1  # a block of its own
    mine[100 * each + 7 : 103 * each] = -2 - rank  # three that all of them have
    mine[200 * each] = float("nan") if rank else 1
    mine[300 * each] = -0.0
    mine[-1] = 4
    for operation in dist.ReduceOp.SUM, dist.ReduceOp.AVG:
        found, others = mine.clone(), [torch.empty_like(mine) for _rank in range(ranks)]
        dist.all_gather(others, mine)
        exact = sum(other.double() for other in others) / (ranks if operation == dist.ReduceOp.AVG else 1)
        lengths.clear()
        dist.all_reduce(found, operation)
        assert torch.allclose(found.double(), exact, rtol=1e-2, equal_nan=True), (dtype, operation)
        assert lengths == [(ranks + 5) * each + 3], (lengths, each)
        dist.all_gather(others, found)
        assert all(torch.equal(other.view(torch.uint8), found.view(torch.uint8)) for other in others)
    most = torch.zeros(count, dtype=dtype)
    most[count // 4 if rank else 0 : count // 4 * 3 if rank else count // 4] = 1  # together more than half
    for turn in range(3):  # the first is looked at, and then two are not
        lengths.clear()
        dist.all_reduce(most)
        assert lengths == [count], lengths
    lengths.clear()
    dist.all_reduce(mine)
    assert lengths == [(ranks + 5) * each + 3], lengths
    small = torch.zeros(1000, dtype=dtype)
    lengths.clear()
    dist.all_reduce(small)
    dist.all_reduce(mine.nan_to_num(), dist.ReduceOp.MAX)
    assert lengths == [1000, count]
embedding, linear = torch.nn.Embedding(50000, 32), torch.nn.Linear(32, 1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(embedding, linear), bucket_cap_mb=8)
for step in range(3):
    model.zero_grad()
    lengths.clear()
    model(torch.tensor([rank, 40000 + step])).sum().backward()
    used = embedding.weight.grad.any(1).nonzero().view(-1).tolist()
    assert used == [*range(ranks), 40000 + step], used
    assert max(lengths) < 3 * touched.BLOCK, lengths
print("only what was touched")
"""


def test_what_no_rank_has_touched_does_not_travel(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TOUCHED)
    done = run(environment, 2, str(tmp_path / "script.py"), timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.count("only what was touched") == 2, done.stdout[-3000:]


@pytest.mark.parametrize(
    "cpus", ["", pytest.param("a communication core", marks=only_at_length("the same scripts, with a thread between"))]
)
def test_what_scripts_do_does_not_disturb_the_ranks(environment: Path, tmp_path: Path, cpus: str) -> None:
    """All of RUNS in one process: starting two ranks costs more than any of them."""
    script = """
import os, sys, threading, time
import amx_cluster_mpi, torch, torch.distributed as dist
dist.init_process_group("mpi")
rank = dist.get_rank()
"""
    script += "".join(f"{what}\nprint('as expected: {name}', flush=True)\n" for name, what in RUNS.items())
    (tmp_path / "script.py").write_text(script)
    cpu = str(max(os.sched_getaffinity(0))) if cpus else ""
    done = run(environment, 2, str(tmp_path / "script.py"), env={"AMX_CLUSTER_MPI_CPUS": cpu}, timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
    assert [done.stdout.count(f"as expected: {name}") for name in RUNS] == [2] * len(RUNS), done.stdout[-3000:]


LEAVES = """
import os, time
import amx_cluster_mpi, torch, torch.distributed as dist
dist.init_process_group({backend!r})
rank = dist.get_rank()
others = dist.new_group([0, 2])
work = dist.isend(torch.full((1000,), 5.0), 0) if rank == 1 else None
if rank == 1:
    work.wait()
    os._exit(0)
time.sleep(3)
for _step in range(3):
    dist.all_reduce(torch.ones(1000), group=others)
if rank == 0:
    dist.recv(received := torch.ones(1000), 1)
    assert received.eq(5).all()
    time.sleep(2)  # the last one to end
print("ended", flush=True)
"""


@pytest.mark.parametrize("backend", ["mpi", pytest.param("gloo", marks=only_at_length("what mpi is to do as well"))])
def test_others_go_on_without_a_rank_that_leaves(environment: Path, tmp_path: Path, backend: str) -> None:
    (tmp_path / "leaves.py").write_text(LEAVES.format(backend=backend))
    done = run(environment, 3, str(tmp_path / "leaves.py"), timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.count("ended\n") == 2


GIVES_UP = """
import time
from datetime import timedelta
import amx_cluster_mpi, torch, torch.distributed as dist
dist.init_process_group("mpi")
if dist.get_rank() == 0:
    try:
        dist.irecv(torch.ones(3), 1).wait(timedelta(seconds=2))
    except dist.DistBackendError:
        print("gave up", flush=True)
else:
    time.sleep(2)
"""


def test_a_message_that_was_given_up_does_not_keep_the_ranks(environment: Path, tmp_path: Path) -> None:
    """Whichever of them comes to its end first."""
    (tmp_path / "script.py").write_text(GIVES_UP)
    done = run(environment, 2, str(tmp_path / "script.py"), timeout=60)
    assert (done.returncode, done.stdout.count("gave up")) == (0, 1), done.stdout[-3000:]


def test_a_communication_thread_that_cannot_start_is_reported(environment: Path, tmp_path: Path) -> None:
    """As with a plan of cores that the host's cpuset has no more."""
    (tmp_path / "script.py").write_text("import amx_cluster_mpi, torch.distributed as d; d.init_process_group('mpi')")
    done = run(environment, 2, str(tmp_path / "script.py"), env={"AMX_CLUSTER_MPI_CPUS": "4000"}, timeout=120)
    assert done.returncode != 0
    assert "the communication thread cannot run on CPU 4000 ([Errno 22] Invalid argument)" in done.stdout


DIFFERENT = """
import amx_cluster_mpi, torch, torch.distributed as dist
dist.init_process_group("mpi")
dist.all_reduce(torch.ones(10 + dist.get_rank()))
"""


def test_different_collectives_are_told_in_debug_mode(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "different.py").write_text(DIFFERENT)
    done = run(environment, 2, str(tmp_path / "different.py"), env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, timeout=120)
    assert done.returncode != 0
    assert "ranks call different collectives, number 1 of their group" in done.stdout
    assert "rank 1: all_reduce SUM float32[11]" in done.stdout


REFUSED = {
    "a tensor that is not on the CPU": (
        "dist.all_reduce(torch.ones(3, device='meta'))",
        "all_reduce: backend mpi works with CPU tensors, and this one is on meta",
    ),
    "a sparse tensor": ("dist.broadcast(torch.eye(3).to_sparse(), 0)", "backend mpi works with dense tensors"),
    "an average of integers": (
        "dist.all_reduce(torch.ones(3, dtype=torch.int64), dist.ReduceOp.AVG)",
        "backend mpi cannot reduce torch.int64 by AVG",
    ),
    "a forked process": ("dist.all_reduce(torch.ones(1))", "a process that a rank has forked cannot communicate"),
}
TRIES = """
import os, sys, amx_cluster_mpi, torch, torch.distributed as dist
dist.init_process_group("mpi")
for name, what in {tries!r}.items():
    child = os.fork() if name == "a forked process" else 0
    if child:
        os.waitpid(child, 0)
        continue
    try:
        exec(what)
    except Exception as error:
        print(f"{{name}}: {{error}}", flush=True)
"""


def test_what_mpi_cannot_do_is_refused(environment: Path, tmp_path: Path) -> None:
    """Each of REFUSED in one process: starting a rank costs more than any of them."""
    script = TRIES.format(tries={name: what for name, (what, _message) in REFUSED.items()})
    (tmp_path / "refused.py").write_text(script)
    done = run(environment, 1, str(tmp_path / "refused.py"), timeout=120)
    assert done.returncode == 0, done.stdout
    missing = {name for name, (_what, said) in REFUSED.items() if not re.search(f"{name}: .*{said}", done.stdout)}
    assert not missing, done.stdout


@pytest.mark.parametrize(
    ("variable", "launcher"), [("TORCHELASTIC_RUN_ID", "torchrun"), ("OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun")]
)
def test_another_launcher_is_refused(environment: Path, variable: str, launcher: str) -> None:
    script = "import amx_cluster_mpi, torch.distributed as dist; dist.init_process_group('mpi')"
    env = {"LD_LIBRARY_PATH": f"{environment}/lib", "PYTHONPATH": str(PACKAGES), variable: "2", "WORLD_SIZE": "2"}
    done = subprocess.run(
        [f"{environment}/bin/python", "-c", script], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert f"this one was started by {launcher}: set launcher: mpirun, or backend: gloo, in the job file" in done.stderr


@pytest.mark.parametrize(
    ("before", "env", "message"),
    [
        ("sys.modules['mpi4py'] = None", {}, "backend mpi needs mpi4py, which this Python does not have"),
        ("", {"LD_LIBRARY_PATH": "/nowhere", "MPI4PY_LIBMPI": "/nowhere/libmpi.so"}, "mpi4py finds no MPI library"),
    ],
)
def test_what_is_missing_is_told(environment: Path, before: str, env: dict[str, str], message: str) -> None:
    script = f"import sys; {before}\nimport amx_cluster_mpi, torch.distributed as dist; dist.init_process_group('mpi')"
    done = subprocess.run(
        [f"{environment}/bin/python", "-c", script],
        env={"LD_LIBRARY_PATH": f"{environment}/lib", "PYTHONPATH": str(PACKAGES), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode
    assert message in done.stderr


def test_a_script_without_a_backend_of_its_own_takes_mpi(environment: Path, tmp_path: Path) -> None:
    """accelerate asks is_mpi_available; what asks for gloo gets gloo, and both may be there at once."""
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import amx_cluster_mpi, torch, torch.distributed as dist
        from accelerate import Accelerator
        accelerator = Accelerator(cpu=True)
        print(dist.get_backend(), dist.is_mpi_available(), accelerator.num_processes)
        beside = dist.new_group(backend="gloo")
        ones = torch.ones(1)
        dist.all_reduce(ones, group=beside)
        print("gloo", ones.item())
        """)
    )
    done = run(environment, 2, str(tmp_path / "script.py"), timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.count("mpi True 2") == done.stdout.count("gloo 2.0") == 2
    assert "For MPI backend, world_size" not in done.stdout


def test_importing_it_costs_next_to_nothing(environment: Path) -> None:
    """Beside the import of torch in the same process; MPI is loaded with the first group only."""
    script = textwrap.dedent(f"""
        import sys, time
        began = time.perf_counter(); import torch.distributed; torch_took = time.perf_counter() - began
        sys.path.insert(0, {str(PACKAGES)!r})
        began = time.perf_counter(); import amx_cluster_mpi; took = time.perf_counter() - began
        print(took / torch_took, "mpi4py" in sys.modules)
        """)
    done = subprocess.run(
        [f"{environment}/bin/python", "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    share, is_loaded = done.stdout.split()
    assert float(share) < 0.1
    assert is_loaded == "False"


INTERRUPTED = """
import os, signal, sys, threading, time
os.environ["AMX_CLUSTER_CPUS"] = f"{os.getpid()}:{','.join(map(str, sorted(os.sched_getaffinity(0))))}"
every = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(every)})  # as OpenMP binds the main thread
import amx_cluster_mpi, torch, torch.distributed as dist
dist.init_process_group("mpi")
dist.barrier()
thread = next(one for one in threading.enumerate() if one.name == "mpi-progress")
assert os.sched_getaffinity(thread.native_id) == every
if dist.get_rank() == 0:
    class Interrupted(BaseException):
        pass
    def interrupt(_number, frame):
        if frame.f_code.co_name == "advance":
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Interrupted
    signal.signal(signal.SIGALRM, interrupt)
    works = [dist.all_reduce(torch.ones(10), async_op=True) for _place in range(3)]
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0003)
    try:
        works[0].wait()
    except Interrupted:
        pass
    for work in works[1:]:
        try:
            work.wait()
        except dist.DistBackendError as error:
            print("behind:", error, flush=True)
else:
    time.sleep(3)
"""


def test_collectives_behind_one_that_a_signal_has_ended_fail(environment: Path, tmp_path: Path) -> None:
    """And the communication thread without a core of its own has all of its rank."""
    (tmp_path / "script.py").write_text(INTERRUPTED)
    done = run(environment, 2, str(tmp_path / "script.py"), timeout=120)
    assert done.stdout.count("behind: an earlier collective of this group was given up: Interrupted()") == 2, (
        done.stdout
    )
    assert done.returncode == 0, done.stdout
