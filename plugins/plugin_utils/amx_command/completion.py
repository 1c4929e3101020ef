# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts that complete commands of `amx` in a shell: commands, their options, job files and directories."""

from __future__ import annotations

from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import arguments, table
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.table import ANSIBLE, COMMANDS, Command

ZSH = "#compdef amx\nautoload -U +X bashcompinit && bashcompinit\n"
BASH = """\
# Completes commands of amx: `eval "$(amx completion @shell@)"` in the file that the shell reads when it starts.
_amx() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command="" number words="" options="" files=""
    local all="@ansible@"
    for ((number = 1; number < COMP_CWORD; number++)); do
        case ${COMP_WORDS[number]} in
        @valued@) ((number++)) ;;
        -*) ;;
        *)
            command=${COMP_WORDS[number]}
            break
            ;;
        esac
    done
    case $command in
    "") words="@commands@" options="--version" ;;
@cases@
    esac
    if [[ $current == -* ]]; then
        words="$options $all" files=""
    fi
    case "$command $previous" in
@values@
    @paths@) words="" files=any ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    case $files in
    jobs)
        COMPREPLY+=($(compgen -d -- "$current") $(compgen -f -X '!*.yml' -- "$current"))
        [[ -n $current ]] || COMPREPLY+=($(compgen -f -X '!*.yml' -- jobs/))
        ;;
    any) COMPREPLY+=($(compgen -f -- "$current")) ;;
    esac
    return 0
}
complete -o filenames -F _amx amx
"""
PATHS = ("FILE", "DIR", "DIR,...", "INVENTORY")


def script(shell: str) -> str:
    """Return the script for bash or zsh."""
    valued = [name for option in ANSIBLE if option.value for name in option.names]
    paths = [name for option in ANSIBLE if option.value in PATHS for name in option.names]
    paths += [option.switch for command in COMMANDS for option in command.options if option.value in PATHS]
    texts = {
        "shell": shell,
        "ansible": " ".join((*(name for option in ANSIBLE for name in option.names), *arguments.HELP)),
        "valued": " | ".join(valued),
        "commands": " ".join((*table.BY_NAME, *table.OWN)),
        "cases": "\n".join([*map(_case, COMMANDS), f'    completion) words="{" ".join(table.SHELLS)}" ;;']),
        "values": "\n".join(_values()),
        "paths": " | ".join(f'*" {name}"' for name in dict.fromkeys(paths)),
    }
    text = BASH
    for name, value in texts.items():
        text = text.replace(f"@{name}@", value)
    return (ZSH if shell == "zsh" else "") + text.rstrip()


def _case(command: Command) -> str:
    words = [word for argument in command.arguments for word in argument.choices]
    names = {argument.name for argument in command.arguments}
    files = "any" if {"cloud", "data"} & names else "jobs" if "job" in names else ""
    parts = [f'words="{" ".join(words)}"'] if words else []
    parts += [f'options="{" ".join(arguments.own_switches(command))}"'] if command.options else []
    parts += [f"files={files}"] if files else []
    return f"    {command.name}) {' '.join(parts) or ':'} ;;"


def _values() -> list[str]:
    """Return a line for each option with few values: these are offered after it."""
    return [
        f'    "{command.name} {option.switch}") words="{" ".join(option.choices)}" files="" ;;'
        for command in COMMANDS
        for option in command.options
        if option.choices and not option.alone
    ]
