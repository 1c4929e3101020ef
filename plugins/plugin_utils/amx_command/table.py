# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of `amx`: a row for each playbook, with the variables of the command line that it takes as options.

Help, completion, and the commands that messages recommend follow from here. A unit test compares the rows with what the
playbooks and their roles read.
"""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "amx_"
"""How the names of all variables begin that are read from the command line alone."""

FLAG = ""
SET = "FIELD=VALUE"


@dataclass(frozen=True)
class Option:
    """A variable of the command line.

    name: without the prefix. text: what it is for, in one line. value: what its value is, for the help; FLAG for yes or
    no, in brackets where the option may stand without one, which is yes. choices: the values that there are, where
    these are few. structured: whether a value that begins with { or [ is YAML. of_role: whether it is a variable of a
    role, which has no prefix.
    """

    name: str
    text: str
    value: str = FLAG
    choices: tuple[str, ...] = ()
    structured: bool = False
    of_role: bool = False

    @property
    def variable(self) -> str:
        """The name of the variable."""
        return self.name if self.of_role else PREFIX + self.name

    @property
    def switch(self) -> str:
        """The name of the option."""
        return "--json" if self is FORMAT else "--set" if self.value == SET else f"--{self.name.replace('_', '-')}"

    @property
    def alone(self) -> bool:
        """Whether it may stand without a value."""
        return self.value == FLAG or self.value.startswith("[")


@dataclass(frozen=True)
class Command:
    """A command, which runs the playbook of its name.

    group: of the help. arguments: those without a name, in their order, of which the first `required` cannot be left
    out. many: whether the last one may be given several times. instead: the name of the option that stands for the
    first argument.
    """

    name: str
    group: str
    text: str
    arguments: tuple[Option, ...] = ()
    options: tuple[Option, ...] = ()
    required: int = 0
    many: bool = False
    instead: str = ""

    @property
    def playbook(self) -> str:
        """The name of the playbook, without its ending."""
        return self.name.replace("-", "_")

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        words = [one.value + ("..." if self.many else "") for one in self.arguments]
        return " ".join(
            [self.name, *(word if number < self.required else f"[{word}]" for number, word in enumerate(words))]
        )

    def option(self, name: str) -> Option | None:
        """Return the option, or the argument, that is the variable of this name, with the prefix or without."""
        every = (*self.arguments, *self.options)
        return next((one for one in every if name in (one.name, one.variable)), None)


GROUPS = {"cluster": "Cluster", "jobs": "Jobs", "measure": "Measurements and reports", "more": "More"}

JOB = Option("job", "the job file, or the name of a job", "JOB")
DATA = Option("data", "the CSV, JSON lines or Parquet file; head:PATH for one on the head", "DATA")
CLOUD = Option("cloud", "the cloud file", "FILE")
PIECES = ("jobs", "previous", "results", "data", "downloads", "environments", "tuning", "firewall", "ssh", "all")
RESET = Option("reset", ", ".join(PIECES), "PIECE", PIECES)

OVERRIDE = Option("override", "a field of the job file for this run, such as args.max_steps=50; repeatable", SET)
HOSTS = "--hosts"
"""Short for --set hosts=N; of every command that has OVERRIDE."""
FORMAT = Option("format", "print one JSON document on stdout, everything else on stderr")
JSON = (
    FORMAT,
    Option("query", "print what this JMESPath expression selects from the document", "EXPRESSION"),
    Option("output", "write the document to a file instead", "FILE"),
)
AGAIN = Option("again", "move earlier results aside and start anew")
VOLUME = Option("volume", "also look at the volume of the jobs on Kubernetes")
PROFILE = Option("profile", "show which operations the steps consist of, of N steps (5)", "[N]")
STEPS = Option("steps", "steps of each run that are measured", "N")
WARMUP = Option("warmup_steps", "steps before them that are not measured", "N")
REPEATS = Option("repeats", "runs of each setting", "N")
BUDGET = Option("budget", "minutes of all runs together", "MINUTES")

ASKED = (
    Option("model", "a directory with a model instead of a job; head:PATH for one on the head", "DIR"),
    Option("setting", "how the model is run: a file of `amx infer`, or a mapping", "FILE", structured=True),
    Option("task", "the task of the model", "TASK"),
    Option("columns", "the columns that the model reads", "A,B"),
)
"""How a model is asked."""


def _role(name: str, text: str, value: str = FLAG, choices: tuple[str, ...] = ()) -> Option:
    return Option(name, text, value, choices, structured=True, of_role=True)


COMMANDS = (
    Command("preflight", "cluster", "check every host as other commands do before a change"),
    Command("doctor", "cluster", "check every host and every connection, and show all problems", options=JSON),
    Command(
        "site",
        "cluster",
        "set up the hosts: SSH, kernel settings, packages",
        options=(
            _role("cluster_verify", "verify at the end that ranks run as planned (the default)"),
            _role("ssh_mesh_accept_changed_keys", "accept the new host keys of these hosts", "HOST,..."),
            _role("ssh_mesh_rotate", "make new SSH keys for the cluster"),
            _role(
                "torch_stack_examples", "also provide transformers' examples", "SOURCE", ("git", "archive", "directory")
            ),
            _role("torch_stack_use", "activate a virtual environment that is installed, or `previous`", "NAME"),
        ),
    ),
    Command("inventory", "cluster", "show the hosts of the inventory without contacting them"),
    Command("reset", "cluster", "show what is on the hosts, or remove pieces of it", (RESET,), many=True),
    Command(
        "plan",
        "jobs",
        "show what each core would do in a job",
        (JOB,),
        (
            Option("estimate", "make a few steps, and show how long the job will take"),
            STEPS,
            WARMUP,
            OVERRIDE,
            *JSON,
        ),
    ),
    Command(
        "train",
        "jobs",
        "run a job",
        (JOB,),
        (
            OVERRIDE,
            PROFILE,
            _role("job_resume", "resume from the last complete checkpoint; auto: if there is one", "[auto]", ("auto",)),
            _role("job_refuse_memory", "refuse a job that needs more memory than a host has (the default)"),
        ),
        required=1,
    ),
    Command("status", "jobs", "show all jobs, or one in full", (JOB,), (VOLUME, OVERRIDE, *JSON)),
    Command(
        "logs",
        "jobs",
        "follow the log of a job",
        (JOB,),
        (Option("pod", "the number of the pod on Kubernetes, from 0", "N"), VOLUME, OVERRIDE),
        required=1,
    ),
    Command(
        "stop",
        "jobs",
        "stop a job",
        (JOB,),
        (
            Option("remove", "also remove its objects on Kubernetes"),
            Option("grace", "seconds that pods have to end", "SECONDS"),
            VOLUME,
            OVERRIDE,
        ),
        required=1,
    ),
    Command(
        "results",
        "jobs",
        "fetch model, metrics and log of a job",
        (JOB,),
        (
            Option("upload", "also upload them", "TO", ("mlflow", "wandb")),
            VOLUME,
            OVERRIDE,
            *JSON,
        ),
        required=1,
    ),
    Command(
        "predict",
        "jobs",
        "predict the rows of a file with a trained model",
        (JOB, DATA),
        (
            *ASKED,
            Option("output_file", "copy the output to a new file on the control node", "FILE"),
            Option("predict_name", "the name of the prediction", "NAME"),
            AGAIN,
            OVERRIDE,
            *JSON,
        ),
        required=2,
        instead="model",
    ),
    Command(
        "serve",
        "jobs",
        "serve a trained model over HTTP",
        (JOB,),
        (
            *ASKED,
            Option("serve_port", "the port (8000)", "PORT"),
            Option("serve_address", "the address (of each host in the cluster); 0.0.0.0: all of a host", "ADDRESS"),
            Option("serve_limits", "seconds, such as health=30,hung=300,request=300", "LIMITS"),
            Option("serve_name", "the name of the server", "NAME"),
            OVERRIDE,
            *JSON,
        ),
        required=1,
        instead="model",
    ),
    Command("verify", "jobs", "verify that ranks run as planned", (JOB,), (OVERRIDE, *JSON)),
    Command(
        "scale",
        "measure",
        "run a job on 1, 2, 4, ... hosts, and compare the speeds",
        (JOB,),
        (
            Option("counts", "numbers of hosts (1, 2, 4, ... all)", "N,..."),
            REPEATS,
            STEPS,
            WARMUP,
            Option("scaling", "keep the batch of all ranks (strong) or of each (weak)", "KIND", ("strong", "weak")),
            Option("constant_global_batch", "keep the global batch whatever the number of hosts"),
            AGAIN,
            OVERRIDE,
            *JSON,
        ),
        required=1,
    ),
    Command(
        "tune",
        "measure",
        "find the ranks, cores, backend and steps that are fastest for a job",
        (JOB,),
        (
            BUDGET,
            Option("vary", "settings to vary, such as ranks_per_node,backend, or learning_rate", "SETTING,..."),
            STEPS,
            WARMUP,
            REPEATS,
            Option("tune_batch", "also try other batch sizes"),
            Option(
                "env_values",
                "values of environment variables to try, a YAML mapping of lists",
                "MAPPING",
                structured=True,
            ),
            Option("learning_rates", "with --vary learning_rate: those to compare", "RATE,..."),
            Option("metric", "with --vary learning_rate: compare by this metric", "NAME"),
            Option("write", "write the fastest setting"),
            Option("write_to", "where the fastest setting is for", "PLACE", ("job", "inventory")),
            AGAIN,
            OVERRIDE,
            *JSON,
        ),
        required=1,
    ),
    Command(
        "infer",
        "measure",
        "measure requests per second and latency of models",
        (JOB,),
        (
            BUDGET,
            Option("p99_ms", "milliseconds that 99 % of the requests may take", "N"),
            Option("agreement", "share of equal answers that int8 must have", "SHARE"),
            AGAIN,
            OVERRIDE,
            *JSON,
        ),
        required=1,
    ),
    Command(
        "network",
        "measure",
        "measure the network between the hosts, or between those of a job",
        (JOB,),
        (
            Option("largest", "the size of the largest tensor, 4KB to 256MB", "SIZE"),
            Option("minutes", "how long it may take (1)", "MINUTES"),
            Option("model", "predict the communication of this model", "MODEL"),
            Option("parameters", "predict that of a model with so many parameters, such as 110M", "N"),
            Option("step_compute_seconds", "seconds of one of its steps on one host", "SECONDS"),
            OVERRIDE,
            *JSON,
        ),
    ),
    Command(
        "report",
        "measure",
        "make an HTML page of the results of a job",
        (JOB,),
        (
            Option("of", "directories of results", "DIR,...", structured=True),
            Option("to", "the directory of the report", "DIR"),
            Option("host_price_per_hour", "what a host costs, such as '2.30 USD'", "PRICE"),
            Option("mixed", "accept results of different jobs or hosts"),
            *JSON,
        ),
    ),
    Command(
        "image",
        "more",
        "build the image for jobs on Kubernetes",
        options=(
            Option("push", "push it to its registry"),
            Option("save", "save it to a tar file", "FILE"),
            _role("image_base", "the image to start from", "IMAGE"),
            _role("image_packages", "packages besides the stack, such as '[peft==0.17.1]'", "LIST"),
        ),
    ),
    Command(
        "manifest",
        "more",
        "write the Kubernetes objects of a job as files",
        (JOB,),
        (
            Option("to", "the directory of the files", "DIR"),
            Option("with_secret", "also write the Secret of a job with env_from"),
            OVERRIDE,
            *JSON,
        ),
        required=1,
    ),
    Command(
        "cloud",
        "more",
        "rent hosts from EC2, or remove them",
        (CLOUD,),
        (
            Option("state", "absent removes all that bills", "STATE", ("present", "absent")),
            Option("images", "with --state absent: also remove images"),
        ),
        required=1,
    ),
    Command("cloud-train", "more", "run a job on rented hosts", (CLOUD, JOB), (OVERRIDE, PROFILE), required=2),
    Command(
        "cloud-image",
        "more",
        "make an image of a rented host",
        options=(
            Option("host", "the host (the head)", "HOST"),
            Option("image_name", "the name of the image", "NAME"),
        ),
    ),
)
BY_NAME = {command.name: command for command in COMMANDS}
BY_PLAYBOOK = {command.playbook: command for command in COMMANDS}
SHELLS = ("bash", "zsh")

OWN = {
    "init": ("init DIRECTORY", "make a directory of your own with an inventory and a job, to be edited"),
    "version": ("version", "show the versions of the collection, of ansible-core and of Python"),
    "completion": (f"completion {'|'.join(SHELLS)}", f"print a script that completes commands: {' or '.join(SHELLS)}"),
}
"""Commands that run no playbook: {name: (usage, text)}."""

NAMES = frozenset(one.name for command in COMMANDS for one in (*command.arguments, *command.options) if not one.of_role)
"""The variables of the command line, without the prefix. Without it, they are known for one more version."""

STRUCTURED = frozenset(
    one.name
    for command in COMMANDS
    for one in command.options
    if one is OVERRIDE or (one.structured and not one.of_role)
)
"""Those of them that may be a mapping or a list."""


@dataclass(frozen=True)
class Passed:
    """An option of ansible-playbook that `amx` passes on. names: short and long. value: empty where it has none."""

    names: tuple[str, ...]
    text: str
    value: str = ""


ANSIBLE = (
    Passed(("-i", "--inventory"), "the inventory (ANSIBLE_INVENTORY, or that of ansible.cfg)", "INVENTORY"),
    Passed(("-l", "--limit"), "only these hosts", "HOSTS"),
    Passed(("-e", "--extra-vars"), "set a variable, name=value", "VARIABLE"),
    Passed(("-C", "--check"), "change nothing, and show what would be changed"),
    Passed(("-D", "--diff"), "show the changes of files"),
    Passed(("-v", "--verbose"), "print the ansible-playbook command and every task; -vvv more"),
    Passed(("-K", "--ask-become-pass"), "ask for the password of sudo"),
    Passed(("-k", "--ask-pass"), "ask for the password of SSH"),
    Passed(("-u", "--user"), "log in as this user", "USER"),
    Passed(("--private-key", "--key-file"), "log in with this key", "FILE"),
    Passed(("-J", "--ask-vault-password"), "ask for the password of the vault"),
    Passed(("--vault-password-file",), "read the password of the vault from a file", "FILE"),
    Passed(("-f", "--forks"), "so many hosts at once", "N"),
    Passed(("-t", "--tags"), "only tasks with these tags", "TAGS"),
    Passed(("--skip-tags",), "no tasks with these tags", "TAGS"),
)
