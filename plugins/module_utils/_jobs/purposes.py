# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Purposes of a job, and what its sequence of steps (roles/job/tasks/main.yml) checks, shows and keeps for each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Purpose:
    """Steps that follow from the purpose of a job.

    named: a job has to be named; the others take one with every field by default. anywhere: any launcher will do; the
    others need ranks on hosts of the inventory. submitted: a batch system may run the job. refuses_locked: a host that
    another job has locked is refused. runs: ranks are started; else the job is planned only. changes: what the run
    leaves counts as a change, because somebody uses it afterwards. keeps_previous: the directory of the previous run is
    moved aside, else replaced. provides_once: what such runs of a play have in common (models, data, packages) is
    provided by the first one. until_ready: the job is followed until its instances answer, and goes on then.
    replaces: a job of the name that runs is no obstacle: it takes what is started. shows_plan, shows_results: the plan
    in full, or the table of results, is what the user requested.
    """

    name: str
    named: bool = True
    anywhere: bool = False
    submitted: bool = False
    refuses_locked: bool = True
    runs: bool = True
    changes: bool = True
    keeps_previous: bool = False
    provides_once: bool = False
    until_ready: bool = False
    replaces: bool = False
    shows_plan: bool = False
    shows_results: bool = False


TRAIN = Purpose("train", anywhere=True, submitted=True, keeps_previous=True, shows_results=True)
PREDICT = Purpose("predict", keeps_previous=True)
SERVE = Purpose("serve", keeps_previous=True, until_ready=True, replaces=True)
TRIAL = Purpose("trial", provides_once=True)
MEASURE = Purpose("measure", named=False, changes=False)
VERIFY = Purpose("verify", submitted=True, named=False, refuses_locked=False, changes=False)
PLAN = Purpose("plan", submitted=True, named=False, refuses_locked=False, runs=False, changes=False, shows_plan=True)
ESTIMATE = Purpose("estimate", refuses_locked=False, runs=False, changes=False)

PURPOSES = {purpose.name: purpose for purpose in (TRAIN, PREDICT, SERVE, TRIAL, MEASURE, VERIFY, PLAN, ESTIMATE)}
