# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report of results: one page, and its tables and figures as files beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership
from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import (
    figures_of_inference,
    figures_of_jobs,
    figures_of_sweeps,
    load,
    page,
    reference,
    style,
    tables_of_inference,
    tables_of_jobs,
    tables_of_sweeps,
    verdict,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import Source, Sources, text
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.style import Drawn
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import Table
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.verdict import Verdict

PAGE = "report.html"
DOCUMENT = "report.json"
# Those that have figures.
SECTIONS = ("Scaling", "Where the time goes", "Model quality", "Hosts", "Tuning", "Inference", "Load", "Network")


@dataclass(frozen=True)
class Report:
    """A report that is not written yet. figures: {section: its figures}."""

    sources: Sources
    tables: Mapping[str, Table]
    figures: Mapping[str, Sequence[Drawn]]
    verdict: Verdict
    published: Mapping[str, Any]

    @property
    def drawn(self) -> list[Drawn]:
        return [figure for figures in self.figures.values() for figure in figures]

    def to_json(self) -> dict[str, Any]:
        """Return the report for programs; its figures draw the rows of the tables that they name."""
        return {
            "version": 1,
            "verdict": self.verdict.to_json(),
            "sources": [
                {"kind": source.kind, "directory": str(source.path), "label": source.label}
                for source in self.sources.all
            ],
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "figures": [
                {
                    "name": figure.name,
                    "file": f"{figure.name}.png",
                    "title": figure.title,
                    "alt": figure.alt,
                    "table": figure.table.name,
                }
                for figure in self.drawn
            ],
        }

    def html(self) -> str:
        """Return the page."""
        jobs = self.sources.of("job")
        return page.render(
            jobs,
            title=self.title(),
            verdict=self.verdict,
            tables=self.tables,
            figures={section: self.figures.get(section, ()) for section in SECTIONS},
            is_restarted=any(row["reason"] or row["attempt"] > 1 for row in self.tables["attempts"].rows),
            diffs=[text(tuning.content.get("diff")) for tuning in self.sources.of("tuning")],
            commands=[(job.label or job.job, job.launch) for job in jobs],
            disagreements=self.published["disagreements"] if self.sources.of("sweep") else None,
        )

    def title(self) -> str:
        """Return the page's title."""
        jobs = list(dict.fromkeys(source.job for source in self.sources.all if source.job))
        return f"{self.verdict.number} {self.verdict.unit}: {', '.join(jobs) or 'network'}"

    def write(self, to: Path) -> list[str]:
        """Write the report into the directory `to`, over an earlier one; return the names of its files.

        Raises OSError.
        """
        to.mkdir(parents=True, exist_ok=True)
        earlier = _io.read_json(to / DOCUMENT) or {}
        contents: dict[str, str] = {PAGE: self.html()}
        contents.update({f"{name}.csv": table.csv() for name, table in self.tables.items() if table.rows})
        pictures = {f"{figure.name}.png": style.png(figure.figure) for figure in self.drawn}
        files = [*contents, *pictures, DOCUMENT]
        # What an earlier report has here and this one has not; other files in the directory stay.
        for name in earlier.get("files", []) if _ownership.is_own(to / DOCUMENT) else []:
            if isinstance(name, str) and name == Path(name).name and name not in files:
                (to / name).unlink(missing_ok=True)
        for name, document in contents.items():
            _io.write_text(to / name, document)
        for name, picture in pictures.items():
            (to / name).write_bytes(picture)
        _io.write_json(to / DOCUMENT, {"mark": _ownership.SIGNATURE, **self.to_json(), "files": files})
        return files

    def write_page(self, path: Path) -> None:
        """Write the page alone. Raises OSError."""
        _io.write_text(path, self.html())


def write(sources: Sources, to: Path, price: Price | None = None) -> tuple[Report, list[str]]:
    """Make a report and write it into a directory; return it, and the names of its files.

    Raises ValueError when matplotlib is missing, and OSError.
    """
    with style.drawing():
        report = make(sources, price)
        return report, report.write(to)


def write_page(sources: Sources, to: Path) -> Path:
    """Make a report and write its page alone into a directory; return its path. Raises as write() does."""
    with style.drawing():
        make(sources).write_page(to / PAGE)
    return to / PAGE


def make(sources: Sources, price: Price | None = None) -> Report:
    """Return the report of these sources; to be called, drawn and written within style.drawing()."""
    published = reference.load()
    jobs, runs = sources.of("job"), [run for sweep in sources.of("sweep") for run in named(sweep)]
    all_tables = [
        tables_of_jobs.overview(sources.all, price),
        tables_of_sweeps.scaling(sources.of("sweep"), price),
        tables_of_sweeps.runs(sources.of("sweep")),
        tables_of_sweeps.split(sources.of("sweep"), jobs),
        tables_of_jobs.operations(jobs),
        tables_of_jobs.losses([*jobs, *runs]),
        tables_of_jobs.metrics([*jobs, *runs]),
        tables_of_jobs.epochs(jobs, published),
        tables_of_jobs.utilization(jobs),
        tables_of_jobs.attempts(jobs),
        tables_of_jobs.hosts(jobs or runs),
        tables_of_sweeps.trials(sources.of("tuning")),
        tables_of_sweeps.finals(sources.of("tuning")),
        *tables_of_inference.all_of(sources.of("inference")),
        load.table(sources.of("load")),
        tables_of_jobs.pairs(sources.of("network")),
        tables_of_jobs.collectives(sources.of("network")),
        tables_of_jobs.findings(sources.of("network")),
        tables_of_jobs.versions(jobs or runs),
        tables_of_jobs.environment(jobs),
    ]
    if sources.of("sweep"):
        all_tables.append(tables_of_jobs.reference(published))
    tables = {table.name: table for table in all_tables}
    tables.setdefault("reference", tables_of_jobs.reference({**published, "rows": []}))
    return Report(
        sources, tables, _figures(sources, tables, published["rows"]), verdict.of(sources, tables, price), published
    )


def named(sweep: Source) -> list[Source]:
    """Return the jobs of a sweep's runs, each under its own name: repeats have the same one."""
    return [replace(run, label=run.path.name) for run in sweep.runs]


def _figures(
    sources: Sources, tables: Mapping[str, Table], published: Sequence[Mapping[str, Any]]
) -> dict[str, list[Drawn]]:
    """Return the figures by section, without those that have nothing to draw."""
    scaling, attempts = tables["scaling"], tables["attempts"]
    made: dict[str, Sequence[Drawn | None]] = {
        "Scaling": [
            figures_of_sweeps.speedup(scaling, published),
            figures_of_sweeps.efficiency(scaling, published),
            figures_of_sweeps.throughput(scaling),
            figures_of_sweeps.epoch_time(scaling),
        ],
        "Where the time goes": [
            figures_of_sweeps.time_split(tables["time_split"]),
            figures_of_sweeps.operations(tables["operations"]),
        ],
        "Model quality": [figures_of_jobs.losses(tables["losses"])],
        "Hosts": _each(partial(figures_of_jobs.utilization, tables["utilization"], attempts), sources.of("job")),
        "Tuning": [figures_of_sweeps.trials(tables["trials"])],
        "Inference": [
            figures_of_inference.throughput(tables["inference_throughput"]),
            *figures_of_inference.latencies(tables["inference"]),
            *figures_of_inference.rates(tables["inference_open_loop"], tables["inference"]),
        ],
        "Load": load.figures(tables["load"]),
        "Network": [
            *_each(partial(figures_of_jobs.pairs, tables["network_pairs"]), sources.of("network")),
            *_each(partial(figures_of_jobs.collectives, tables["collectives"]), sources.of("network")),
        ],
    }
    return {section: [figure for figure in figures if figure is not None] for section, figures in made.items()}


def _each(draw: Callable[[str], Drawn | None], sources: Sequence[Source]) -> list[Drawn | None]:
    """Return figures of the same kind, one for each source, with names and titles that tell them apart."""
    drawn = [draw(source.label) for source in sources]
    if len(sources) == 1:
        return drawn
    return [
        figure and replace(figure, name=f"{figure.name}_{place}", title=f"{figure.title}: {source.label}")
        for place, (figure, source) in enumerate(zip(drawn, sources), 1)
    ]
