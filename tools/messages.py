"""The messages by which the collection refuses something, each with the page that explains its topic.

They are read from the code: what `raise`, `fail_json`, `msg` and `fail_msg` are given, and what is added to a list of
problems. A part that is only known when the message is made stands as `...`. TOPICS names the page for each file of
code, and says which files refuse nothing that a user could see.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from language import tracked

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/messages.md"
CODE = ("plugins/*.py", "roles/*/files/*.py")
TASKS = ("playbooks/*.yml", "roles/*/tasks/*.yml", "roles/*/handlers/*.yml")
# Lists of problems, which are raised together.
LISTS = {"problems", "errors", "found", "wrong", "refusals", "reasons", "failures", "missing"}
# Placeholders alone explain nothing: such a message was made elsewhere.
WORDS = re.compile(r"[A-Za-z]{3,}")


@dataclass(frozen=True)
class Topic:
    """A topic of messages: its title, the page that explains it, and the beginnings of the names of its files."""

    title: str
    page: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Message:
    """A message in a file."""

    path: str
    line: int
    text: str


TOPICS = (
    Topic(
        "Inventory and hosts",
        "docs/doctor.md",
        (
            "plugins/module_utils/_hosts/inventory.py",
            "plugins/module_utils/_hosts/facts.py",
            "plugins/module_utils/_hosts/links.py",
            "plugins/module_utils/_hosts/doctor.py",
            "plugins/module_utils/_hosts/peers.py",
            "plugins/module_utils/_hosts/checks/",
            "plugins/module_utils/_hosts/amx",
            "plugins/action/inventory_check.py",
            "plugins/filter/",
            "plugins/lookup/host_values.py",
            "plugins/modules/host_info.py",
            "plugins/modules/peer_",
            "roles/preflight/",
            "playbooks/",
        ),
    ),
    Topic("AMX", "docs/amx.md", ("plugins/modules/amx_info.py",)),
    Topic(
        "Operating systems and Pythons",
        "docs/operating_systems.md",
        ("plugins/module_utils/_hosts/systems.py", "plugins/module_utils/_stacks/pythons.py"),
    ),
    Topic(
        "SSH, firewall and kernel settings",
        "docs/ssh_firewall_kernel.md",
        (
            "plugins/module_utils/_hosts/firewall.py",
            "plugins/module_utils/_hosts/ssh_mesh.py",
            "plugins/module_utils/_hosts/tuning.py",
            "plugins/modules/firewall_rules.py",
            "plugins/modules/kernel_settings.py",
            "plugins/modules/ssh_",
            "plugins/action/ssh_",
            "roles/firewall/",
            "roles/host_tuning/",
            "roles/ssh_mesh/",
        ),
    ),
    Topic(
        "Fabrics",
        "docs/fabrics.md",
        ("plugins/module_utils/_hosts/fabrics.py", "plugins/module_utils/_stacks/libfabric.py"),
    ),
    Topic(
        "Stacks, wheels and virtual environments",
        "docs/stacks.md",
        (
            "plugins/module_utils/_io.py",
            "plugins/module_utils/_stacks/",
            "plugins/module_utils/_hosts/loader.py",
            "plugins/module_utils/_hosts/openmp.py",
            "plugins/modules/git_wheels.py",
            "plugins/modules/loader_library_info.py",
            "plugins/modules/requirements_info.py",
            "plugins/modules/stack_info.py",
            "plugins/modules/venv",
            "plugins/modules/wheelhouse.py",
            "plugins/action/venv_activate.py",
            "roles/torch_stack/",
        ),
    ),
    Topic(
        "Models, datasets and projects",
        "docs/models_and_datasets.md",
        (
            "plugins/module_utils/_data/hub.py",
            "plugins/module_utils/_data/file_set.py",
            "plugins/module_utils/_data/pass_on.py",
            "plugins/module_utils/_data/relay.py",
            "plugins/modules/file_",
            "plugins/modules/hub_snapshot.py",
            "plugins/action/file_",
            "roles/data_cache/",
            "roles/pass_on/",
        ),
    ),
    Topic(
        "Projects",
        "docs/own_project.md#errors",
        (
            "plugins/module_utils/_data/project.py",
            "plugins/module_utils/_data/ignore.py",
            "plugins/module_utils/_jobs/project_files.py",
        ),
    ),
    Topic(
        "Core allocation",
        "docs/core_allocation.md",
        (
            "plugins/module_utils/_cores/",
            "plugins/modules/core_",
            "plugins/module_utils/_jobs/plan",
            "plugins/action/job_plan.py",
        ),
    ),
    Topic(
        "Kubernetes",
        "docs/kubernetes.md",
        (
            "plugins/module_utils/_kubernetes/",
            "plugins/action/kubernetes_",
            "plugins/action/image_",
            "plugins/plugin_utils/jobs_in_pods.py",
            "plugins/plugin_utils/pods.py",
            "roles/image/",
            "roles/kubernetes/",
            "roles/manifest/",
        ),
    ),
    Topic(
        "Batch prediction",
        "docs/prediction.md",
        (
            "plugins/module_utils/_jobs/prediction",
            "plugins/module_utils/_jobs/batches.py",
            "plugins/module_utils/_measure/prediction.py",
            "plugins/module_utils/_data/records.py",
            "plugins/plugin_utils/predictions.py",
            "plugins/action/prediction_",
            "plugins/modules/prediction_",
            "roles/predict/",
        ),
    ),
    Topic(
        "Inference benchmarks",
        "docs/inference.md",
        (
            "plugins/module_utils/_jobs/inference",
            "plugins/module_utils/_measure/inference",
            "plugins/plugin_utils/infers.py",
            "plugins/action/infer_",
            "plugins/modules/infer_",
            "roles/infer/",
        ),
    ),
    Topic(
        "Network measurements",
        "docs/network.md",
        (
            "plugins/module_utils/_measure/network",
            "plugins/module_utils/_measure/imb.py",
            "plugins/action/network_",
            "roles/network/",
        ),
    ),
    Topic(
        "Tuning",
        "docs/tuning.md",
        (
            "plugins/module_utils/_measure/tune",
            "plugins/module_utils/_measure/trials.py",
            "plugins/module_utils/_measure/job_text.py",
            "plugins/plugin_utils/tunes.py",
            "plugins/action/tune_",
            "roles/tune/",
        ),
    ),
    Topic(
        "Scaling",
        "docs/scaling.md",
        (
            "plugins/module_utils/_measure/sweep",
            "plugins/module_utils/_measure/",
            "plugins/plugin_utils/sweeps.py",
            "plugins/action/sweep_",
            "roles/scale/",
        ),
    ),
    Topic(
        "Reports as JSON",
        "docs/json.md",
        ("plugins/plugin_utils/document.py", "plugins/plugin_utils/requested.py", "plugins/action/document_check.py"),
    ),
    Topic("Reports", "docs/report.md", ("plugins/action/results_report.py", "roles/report/")),
    Topic(
        "Reset",
        "docs/cluster_life.md#reset",
        (
            "plugins/module_utils/_jobs/reset.py",
            "plugins/module_utils/_ownership.py",
            "plugins/modules/own_path.py",
            "plugins/modules/reset_",
            "plugins/action/reset_",
            "roles/reset/",
        ),
    ),
    Topic(
        "Faults and restarts",
        "docs/faults_and_restarts.md",
        (
            "plugins/module_utils/_jobs/checkpoints.py",
            "plugins/module_utils/_jobs/faults.py",
            "plugins/module_utils/_jobs/session.py",
        ),
    ),
    Topic(
        "Checks of a running job",
        "docs/watching.md",
        (
            "plugins/module_utils/_jobs/supervisor.py",
            "plugins/module_utils/_jobs/watch.py",
            "plugins/module_utils/_jobs/heartbeats.py",
            "plugins/module_utils/_jobs/verification.py",
            "plugins/action/verification_",
            "roles/job/files/",
        ),
    ),
    Topic(
        "Status, logs and repeated starts",
        "docs/job_status.md",
        (
            "plugins/module_utils/_jobs/directory.py",
            "plugins/module_utils/_jobs/status.py",
            "plugins/module_utils/_jobs/processes.py",
            "plugins/module_utils/_jobs/progress.py",
            "plugins/module_utils/_jobs/results.py",
            "plugins/action/job_directory.py",
            "plugins/action/job_info.py",
            "plugins/modules/job_",
            "plugins/modules/jobs_",
            "roles/job/",
        ),
    ),
    # The rest of what reads and runs jobs.
    Topic(
        "Job files",
        "docs/job_files.md",
        ("plugins/module_utils/_jobs/", "plugins/lookup/job.py", "plugins/action/job_read.py"),
    ),
)


def template(node: ast.expr | None) -> str:
    """Return the text that an expression makes, with `...` for what is not a constant."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return "..."


def variants(node: ast.expr | None) -> Iterator[str]:
    """Return each text that an expression may make: both sides of a conditional one."""
    if isinstance(node, ast.IfExp):
        yield from variants(node.body)
        yield from variants(node.orelse)
    else:
        yield template(node)


def given(node: ast.AST) -> ast.expr | None:
    """Return what a statement or call shows to a user, or None."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
        return node.exc.args[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "fail_json":
            return next((keyword.value for keyword in node.keywords if keyword.arg == "msg"), None)
        if node.func.attr == "append" and isinstance(node.func.value, ast.Name) and node.func.value.id in LISTS:
            return node.args[0]
    return None


def in_code(path: str, content: str) -> Iterator[Message]:
    """Return the messages of a Python file."""
    for node in ast.walk(ast.parse(content)):
        expression = given(node)
        if expression is not None:
            for text in variants(expression):
                yield Message(path, expression.lineno, " ".join(text.split()))


def in_tasks(path: str, content: str) -> Iterator[Message]:
    """Return the messages of `fail_msg`, and of `msg` of a task that fails."""
    for node in _mappings(yaml.compose(content, Loader=yaml.SafeLoader)):
        keys = {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}
        failing = next((keys[name] for name in ("ansible.builtin.fail", "fail") if name in keys), None)
        values = [keys.get("fail_msg")]
        if isinstance(failing, yaml.MappingNode):
            values += [value for key, value in failing.value if key.value == "msg"]
        for value in values:
            if isinstance(value, yaml.ScalarNode):
                text = re.sub(r"{{.*?}}|{%.*?%}", "...", value.value, flags=re.DOTALL)
                yield Message(path, value.start_mark.line + 1, " ".join(text.split()))


def _mappings(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.MappingNode):
        yield node
        for _key, value in node.value:
            yield from _mappings(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _mappings(item)


def messages() -> list[Message]:
    """Return all messages that have words of their own, by file and line."""
    found: list[Message] = []
    for path in tracked(*CODE):
        found += in_code(path, (ROOT / path).read_text(encoding="utf-8"))
    for path in tracked(*TASKS):
        found += in_tasks(path, (ROOT / path).read_text(encoding="utf-8"))
    return [message for message in found if WORDS.search(message.text)]


def topic(path: str) -> Topic | None:
    """Return the topic of a file: the first one that names it, the longest beginning first."""
    matches = [(len(start), one) for one in TOPICS for start in one.files if path.startswith(start)]
    return max(matches, key=lambda match: match[0])[1] if matches else None


def index() -> str:
    """Return the page of all messages by topic."""
    parts = [
        "# Index of messages",
        "",
        "<!-- Written by `make docs` from the code. -->",
        "",
        "The messages by which the collection refuses something, by topic, with `...` for names and values. Each",
        "says what is wrong and what to do; the linked page has the background. [Troubleshooting](troubleshooting.md)",
        "explains those that need more.",
        "",
    ]
    every = messages()
    for one in TOPICS:
        texts = sorted({message.text for message in every if topic(message.path) == one}, key=str.lower)
        if texts:
            # In code, so that nothing in a message is taken for markup.
            listed = [f"- ``{text} ``" if text.endswith("`") else f"- `` {text} ``" for text in texts]
            name = one.page.removeprefix("docs/")
            title = (ROOT / one.page.partition("#")[0]).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            parts += [
                f"## {one.title}",
                "",
                f"Explained in [{title}]({name}).",
                "",
                *listed,
                "",
            ]
    return "\n".join(parts)
