"""Which files of unit tests are slow: they start processes, wait, or compute for long. `make check` leaves them out."""

from __future__ import annotations

from pathlib import Path

# By the end of their path.
FILES = {
    "jobs/test_docstring_pairs.py",
    "_cloud/test_image.py",
    "_cores/test_allocation_laws.py",
    "_hosts/test_login_shell.py",
    "_jobs/test_heartbeats.py",
    "_jobs/test_processes.py",
    "_kubernetes/control/test_checks.py",
    "_kubernetes/control/test_objects.py",
    "_kubernetes/pod/test_main.py",
    "_measure/load/test_load.py",
    "_measure/report/test_figures.py",
    "_measure/report/test_inference.py",
    "_measure/report/test_load.py",
    "_measure/report/test_make.py",
    "_measure/test_inference.py",
    "_measure/test_network.py",
    "_measure/test_slow_hosts.py",
    "_measure/test_tuning.py",
    "_stacks/test_git_wheels.py",
    "_stacks/test_pip.py",
    "_stacks/test_project_wheel.py",
    "_stacks/test_wheelhouse.py",
    "action/test_results_report.py",
    "amx_command/test_table.py",
    "module_utils/test_ownership.py",
    "modules/test_doctor_modules.py",
    "modules/test_file_pass_on.py",
    "modules/test_job_host_info.py",
    "modules/test_ssh_modules.py",
    "modules/test_stack_modules.py",
    "test_observe.py",
    "test_rank.py",
    "test_start.py",
    "test_supervise.py",
    "tools/test_step_table.py",
}


def is_slow(path: Path) -> bool:
    """Return whether a file of tests is one of them."""
    return any("/".join(path.parts[-length:]) in FILES for length in range(1, 4))
