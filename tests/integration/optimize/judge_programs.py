"""Random programs, with PyTorch's own functions and with the parts of optimize: each difference as a small program.

judge_programs.py OBSERVE [--seconds N] [--programs N] [--seed N] [--area NAME] [--program REPR]: OBSERVE is the
directory of amx_cluster.optimize. Prints the number of programs of each area, and exits with 1 if any differs. A
program is a row of choices; of one that differs, each choice is replaced by the first of its field while it still
differs. `--program` runs one that was printed.

Both sides run in a process of their own: one that crashes is a difference. Masks of dropout differ by design. Attention
is therefore compared in two processes whose masks are those of the part `dropout`, which draw the same from the same
seed; dropout itself by what must hold of every mask.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import multiprocessing
import pickle
import random
import re
import sys
import time
import warnings
from collections import Counter
from typing import Any

import programs_attention
import programs_dropout
import programs_loss
import programs_optimizer
import programs_padding
import torch
import torch._dynamo  # what vmap imports when it is first called, once for all sides
from records import Record, differences

AREAS: dict[str, Any] = {
    "attention": programs_attention,
    "dropout": programs_dropout,
    "optimizer": programs_optimizer,
    "loss": programs_loss,
    "padding": programs_padding,
}
# The parts that each of the two sides has.
OPERATORS = ["dropout", "attention", "optimizer"]
STOCK = {"attention": ["dropout"], "dropout": [], "optimizer": [], "loss": OPERATORS, "padding": OPERATORS}
ALL = [*OPERATORS, "loss", "padding"]
# What the kind of a difference does not have: the number of a step or of a tensor.
STEP, NUMBER = re.compile(r"step \d+( after [^,:]*)?"), re.compile(r" \d+")


class Side:
    """A process with some parts installed. It runs programs of AREAS, or `run` of another module."""

    def __init__(self, observe: str, parts: list[str]) -> None:
        self.observe, self.parts = observe, parts
        self._start()

    def _start(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(theirs, self.observe, self.parts), daemon=True
        )
        self.process.start()
        theirs.close()

    def ask(self, area: str, program: dict[str, Any], is_exact: bool = False) -> None:
        self.pipe.send((area, program, is_exact))

    def answer(self) -> tuple[list[Any], Counter[str]]:
        """Return what was recorded, and how many times each part acted."""
        try:
            if not self.pipe.poll(600):
                self.process.kill()
            return pickle.loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            self._start()
            return [("process", "ends", code)], Counter()


def _serve(pipe: Any, observe: str, parts: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, observe)
    acted = Counter[str]()
    if parts:
        import amx_cluster.optimize

        amx_cluster.optimize.install(parts)
        _count(acted, parts)
    while True:
        try:
            area, program, is_exact = pipe.recv()
        except EOFError:
            return
        acted.clear()
        record = Record(is_exact)
        record.run((AREAS.get(area) or importlib.import_module(area)).run, program)
        pipe.send_bytes(pickle.dumps((record.events, +acted)))


def _count(acted: Counter[str], parts: list[str]) -> None:
    """Count how often each part acts."""

    def counted(owner: Any, name: str, area: str) -> None:
        function = getattr(owner, name)

        def count(*args: Any, **kwargs: Any) -> Any:
            acted[area] += 1
            return function(*args, **kwargs)

        is_static = isinstance(owner, type) and isinstance(owner.__dict__[name], staticmethod)
        setattr(owner, name, staticmethod(count) if is_static else count)

    from amx_cluster.optimize import masks

    counted(masks, "fill", "dropout")
    if "attention" in parts:
        from amx_cluster.optimize import attention

        attention.SMALL = 1 << 16
        counted(attention.Attention, "forward", "attention")
    if "optimizer" in parts:
        from amx_cluster.optimize import optimizer

        optimizer.SMALL = 0
        for name in ("_fused_adam_", "_fused_adamw_"):
            counted(torch, name, "optimizer")
    if "loss" in parts:
        from amx_cluster.optimize import loss

        loss.SMALL, loss.CHUNK, loss.BLOCK = 0, 1, 1
        counted(loss.CrossEntropy, "forward", "loss")
    if "padding" in parts:
        from amx_cluster.optimize import padding

        padding.WORTH, padding.SHARE = 1, 0
        counted(padding.Rows, "pack", "padding")


class Judge:
    def __init__(self, observe: str) -> None:
        every = [*(tuple(parts) for parts in STOCK.values()), tuple(ALL)]
        self.sides = {parts: Side(observe, list(parts)) for parts in dict.fromkeys(every)}

    def compare(self, area: str, program: dict[str, Any]) -> tuple[dict[str, str], int]:
        """Return the kinds of difference with the numbers of the first of each, and how often the part acted."""
        stock, mine = self.sides[tuple(STOCK[area])], self.sides[tuple(ALL)]
        for side in (stock, mine):
            side.ask(area, program)
        (theirs, _none), (ours, acted) = stock.answer(), mine.answer()
        rounding = getattr(AREAS[area], "ROUNDING", 1.0)
        found = list(differences(theirs, ours, None, rounding))
        if found and AREAS[area].HAS_EXACT:
            # Only what differs by more than the type's own precision is compared to float64.
            stock.ask(area, program, True)
            found = list(differences(theirs, ours, stock.answer()[0], rounding))
        kinds: dict[str, str] = {}
        for each in found:
            name, _bar, numbers = each.partition(" | ")
            name = STEP.sub("step", name)
            kinds.setdefault(f"{area}: {NUMBER.sub('', name)}", " ".join(numbers.split()))
        return kinds, acted[area]

    def smaller(self, area: str, program: dict[str, Any], found: str) -> dict[str, Any]:
        """Return the program with as many first choices as it can have and still differ in the same way."""
        fields = AREAS[area].FIELDS
        for name in fields:
            tried = {**program, name: fields[name][0]}
            if tried != program and found in self.compare(area, tried)[0]:
                program = tried
        return program


def draw(area: str, seed: int, number: int) -> dict[str, Any]:
    """Return a program: of most fields mostly the first choice, so that a part acts in many."""
    chance = random.Random(f"{area} {seed} {number}")
    plain = chance.choice((0.6, 0.8, 0.9))
    program = {}
    for name, choices in AREAS[area].FIELDS.items():
        is_plain = chance.random() < (plain / 2 if name in AREAS[area].VARIED else plain)
        program[name] = choices[0] if is_plain else chance.choice(choices)
    return program


def changed(area: str, program: dict[str, Any]) -> dict[str, Any]:
    fields = AREAS[area].FIELDS
    return {name: value for name, value in program.items() if value != fields[name][0]}


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("observe")
    asked.add_argument("--seconds", type=float, default=1e9)
    asked.add_argument("--programs", type=int, default=10**9)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--examples", type=int, default=1, help="that are printed of each difference")
    asked.add_argument("--area", choices=AREAS, action="append")
    asked.add_argument("--program", type=ast.literal_eval, help="of one --area: the choices that are not the first")
    given = asked.parse_args()
    judge, areas = Judge(given.observe), given.area or list(AREAS)
    if given.program is not None:
        first = {name: choices[0] for name, choices in AREAS[areas[0]].FIELDS.items()}
        found, acted = judge.compare(areas[0], {**first, **given.program})
        print("\n".join(map(" | ".join, found.items())) or "no difference", f"\nThe part acted {acted} times.")
        return bool(found)
    ran, acted_in, seen = Counter[str](), Counter[str](), Counter[str]()
    differ = 0
    end, number, every = time.monotonic() + given.seconds, 0, dict.fromkeys(areas, 0.0)
    while number < given.programs and time.monotonic() < end:
        area = min(every, key=every.__getitem__) if given.programs == 10**9 else areas[number % len(areas)]
        began = time.monotonic()
        program = draw(area, given.seed, ran[area])
        ran[area] += 1
        number += 1
        found, acted = judge.compare(area, program)
        acted_in[area] += acted > 0
        differ += bool(found)
        seen.update(list(found))
        for each in found:
            if seen[each] <= given.examples:
                least = judge.smaller(area, program, each)
                print(f"DIFFERENT {each} | {judge.compare(area, least)[0].get(each)}")
                print(f"    --area {area} --program {str(changed(area, least))!r}", flush=True)
        every[area] += time.monotonic() - began
    for area in areas:
        print(f"{area}: {ran[area]} programs, the part acted in {acted_in[area]}")
    for each, count in seen.most_common():
        print(f"{count} times {each}")
    print(f"{number} programs, {differ} differ")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
