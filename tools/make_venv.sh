#!/usr/bin/env bash
# Make .venv, the control machine's Python environment, with the versions that requirements.txt pins.
#
#   tools/make_venv.sh          Ansible and pip (requirements.txt)
#   tools/make_venv.sh tests    the same, and what `make test` needs (tests/requirements.txt)
#
# PYTHON=/path/to/python3.12 names the Python to use; otherwise the first supported one on PATH is taken.
# Nothing outside the checkout is written, and root is not needed. A second run ends at once; a run that was
# interrupted is repaired by the next.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv="$PWD/.venv"
wanted="${1:-control}"

# What belongs to another Python must not make pip believe that a package is there already.
unset PYTHONPATH PYTHONHOME
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

fail() {
    printf 'make_venv: %s\n' "$@" >&2
    exit 1
}

case "$wanted" in
    control | tests) ;;
    *) fail "unknown argument '$wanted': expected nothing, or 'tests'." ;;
esac

# pip_install PIP... -- PACKAGE...: pip by the command PIP. What it says goes to a file (with --log it would print
# warnings in spite of -qq), and to the screen only the end of that, if it fails.
pip_install() {
    local pip=() log=.cache/make_venv.log
    while [[ "$1" != -- ]]; do
        pip+=("$1")
        shift
    done
    echo "pip install ${*:2}" >>"$log"
    "${pip[@]}" install --progress-bar off "${@:2}" >>"$log" 2>&1 && return
    grep -v '^WARNING: ' "$log" | tail -n 12 >&2
    fail "pip could not install ${*:2}: see above, and all of it in $log." "Once the reason is gone, run this again."
}

# ansible-core 2.19 runs on Python 3.11 to 3.13, and 2.20, which is taken from 3.12 on, on 3.12 to 3.14.
find_python() {
    local name found="" names="${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}"
    for name in $names; do
        # Of a virtual environment, the Python behind it: .venv itself may be active, and is removed.
        found="$("$name" -c 'import sys; (3, 11) <= sys.version_info < (3, 15) and print(sys._base_executable)' 2>/dev/null)" || continue
        if [[ -n "$found" ]]; then
            echo "$found"
            return
        fi
    done
    if [[ -z "${PYTHON:-}" ]]; then
        fetch_python && return
    fi
    fail "found no Python 3.11 to 3.14 (looked for: $names)." \
        "Debian 12 and Ubuntu 24.04 carry one as 'python3'; Ubuntu 22.04 as the package 'python3.11'." \
        "A Python elsewhere is named with PYTHON, for example: make demo PYTHON=/opt/python/bin/python3.12"
}

# Where the distribution's Python is too old, uv fetches one into .cache/python, from UV_PYTHON_INSTALL_MIRROR or its own
# place on GitHub. It is installed by the old Python's pip, where there is one.
fetch_python() {
    local uv=.cache/uv
    python3 -m pip --version >/dev/null 2>&1 || return 1
    echo "python3 is older than 3.11: uv fetches 3.13 into .cache/python" >&2
    export UV_PYTHON_INSTALL_DIR="$PWD/.cache/python"
    {
        python3 -m pip install -q --upgrade --target "$uv" "$(grep '^uv==' requirements.txt)" &&
            "$uv/bin/uv" python install --no-bin 3.13 &&
            found="$("$uv/bin/uv" python find --managed-python 3.13)"
    } >>.cache/make_venv.log 2>&1 || {
        echo "uv could not fetch it: see .cache/make_venv.log" >&2
        return 1
    }
    echo "$found"
}

# The requirements that a stamp stands for, with this place (scripts in .venv name it) and the environment's Python.
fingerprint() {
    { echo "$venv"; "$venv/bin/python" -VV; cat "$@"; } 2>/dev/null | sha256sum
}

is_current() {
    [[ -x "$venv/bin/python" && ! -e "$venv/unfinished" && -e "$venv/stamp_$1" ]] || return 1
    case "$1" in
        control) [[ "$(cat "$venv/stamp_control")" == "$(fingerprint requirements.txt)" ]] ;;
        tests) [[ "$(cat "$venv/stamp_tests")" == "$(fingerprint requirements.txt tests/requirements.txt)" ]] ;;
    esac
}

# Debian and Ubuntu leave pip out of Python (no ensurepip) until packages are installed, which takes root. So the
# package with pip's wheel, and certificates where there are none, are downloaded and unpacked into a temporary folder,
# and pip runs from there once, to install itself.
install_pip_from_debian() {
    local pin="$1" packages=(python3-pip-whl) wheels
    if ! command -v apt-get >/dev/null; then
        fail "this Python has no ensurepip, and this is not Debian or Ubuntu, where pip could be taken from a package." \
            "Install your distribution's package for Python virtual environments, then run this again."
    fi
    # What Debian's pip trusts; a minimal system may lack it.
    [[ -s /etc/ssl/certs/ca-certificates.crt || -n "${PIP_CERT:-}" ]] || packages+=(ca-certificates)

    folder="$(mktemp -d)"
    trap 'rm -rf "$folder"' EXIT
    (
        cd "$folder"
        mkdir -p state/lists/partial cache/archives/partial unpacked
        # As root apt would change to a user that cannot write here.
        options=(-q -o APT::Sandbox::User="$(id -un)" -o Dir::Cache="$folder/cache")
        if ! apt-get "${options[@]}" download "${packages[@]}" >log 2>&1; then
            # A fresh machine has no package lists, or old ones: fetch them to a private place.
            options+=(-o Dir::State="$folder/state" -o Dir::State::status=/var/lib/dpkg/status)
            if ! { apt-get "${options[@]}" update && apt-get "${options[@]}" download "${packages[@]}"; } >>log 2>&1; then
                fail "could not download ${packages[*]}:" "$(cat log)"
            fi
        fi
        for package in *.deb; do
            dpkg-deb -x "$package" unpacked
        done
    )
    wheels=("$folder"/unpacked/usr/share/python-wheels/pip-*.whl)
    [[ -e "${wheels[0]}" ]] || fail "the package python3-pip-whl holds no usr/share/python-wheels/pip-*.whl."
    if [[ "${packages[*]}" == *ca-certificates* ]]; then
        cat "$folder"/unpacked/usr/share/ca-certificates/mozilla/*.crt >"$folder/certificates"
        pip_install env PIP_CERT="$folder/certificates" "$venv/bin/python" "${wheels[0]}/pip" -- "$pin"
    else
        pip_install "$venv/bin/python" "${wheels[0]}/pip" -- "$pin"
    fi
}

create() {
    local python pip_pin
    python="$(find_python)"
    pip_pin="$(grep -E '^pip==' requirements.txt)"
    echo "Making .venv with $("$python" -V) ($python)"
    # What this script has made has one of these; another virtual environment stays.
    if [[ -e "$venv" && ! -e "$venv/unfinished" && -z "$(compgen -G "$venv/stamp_*")" ]]; then
        fail "$venv was not made by $0, which needs that place: rename it."
    fi
    rm -rf "$venv" .cache/make_venv.log
    mkdir "$venv"
    touch "$venv/unfinished"
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -m venv "$venv"
        pip_install "$venv/bin/python" -m pip -- "$pip_pin"
    else
        "$python" -m venv --without-pip "$venv"
        install_pip_from_debian "$pip_pin"
    fi
}

install_requirements() {
    local part="$1" file arguments=()
    shift
    for file in "$@"; do
        arguments+=(-r "$file")
    done
    echo "Installing into .venv: $(grep -hoE '^[A-Za-z][A-Za-z0-9_.-]*' "$@" | awk '!seen[$0]++' | paste -sd ' ')"
    touch "$venv/unfinished"
    pip_install "$venv/bin/python" -m pip -- "${arguments[@]}"
    fingerprint "$@" >"$venv/stamp_$part"
    rm "$venv/unfinished"
}

# Two makes at once must not build the same environment.
mkdir -p .cache
exec 9>.cache/make_venv.lock
flock 9

if ! is_current control; then
    # Also after an interrupted run: what pip left half done cannot be told from what is whole. pip's own cache
    # keeps what was downloaded.
    create
    install_requirements control requirements.txt
fi
if [[ "$wanted" == tests ]] && ! is_current tests; then
    install_requirements tests requirements.txt tests/requirements.txt
fi
# The command amx of this checkout, beside ansible-playbook.
ln -sfn ../../cli/amx "$venv/bin/amx"
