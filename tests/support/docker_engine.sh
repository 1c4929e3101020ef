#!/bin/sh
# Make sure that a Docker engine answers: tests/support/docker_engine.sh start | stop
#
# start: does nothing when one answers. Otherwise, as root on Debian or Ubuntu, installs docker.io and debootstrap where
#        they are missing and starts dockerd in the background (log: .cache/dockerd.log).
# stop:  ends the dockerd that start started, and no other.
#
# Where root lacks CAP_SYS_RESOURCE, containers run by runc_without_oom_scores.sh, without which no pod would start.
#
# DOCKER_HOST (a unix:// socket) and DOCKERD_FLAGS (more flags for dockerd) are honoured.
set -eu

cache="$(cd "$(dirname "$0")/../.." && pwd)/.cache"
pid_file="$cache/dockerd.pid"
log="$cache/dockerd.log"
PATH="$PATH:/usr/sbin:/sbin"

installed() {
    command -v "$1" > /dev/null
}

answers() {
    installed docker && timeout 10 docker version --format '{{.Server.Version}}' > /dev/null 2>&1
}

fail() {
    printf 'No Docker engine: %s\n' "$*" >&2
    exit 1
}

ours() {
    [ -f "$pid_file" ] && [ "$(cat "/proc/$(cat "$pid_file")/comm" 2> /dev/null)" = dockerd ]
}

# The flags without which Kubernetes' pods do not start here.
runtime() {
    capabilities="$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)"
    if [ $((0x$capabilities >> 24 & 1)) -eq 0 ]; then
        wrapper="$(cd "$(dirname "$0")" && pwd)/runc_without_oom_scores.sh"
        printf '%s' "--add-runtime=amx=$wrapper --default-runtime=amx"
    fi
}

start() {
    if answers; then
        return
    fi
    host="${DOCKER_HOST:-unix:///var/run/docker.sock}"
    case "$host" in
        unix://*) ;;
        *) fail "DOCKER_HOST is $host, and nothing answers there. Start that engine, or unset DOCKER_HOST." ;;
    esac
    if [ "$(id -u)" -ne 0 ]; then
        user="$(id -un)"
        fail "nothing answers at $host for user $user. Start Docker and add the user to its group" \
            "(usermod -aG docker $user), or run this as root."
    fi
    if ! installed docker || ! installed dockerd || ! installed debootstrap; then
        if ! grep -qE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release 2> /dev/null; then
            fail "it is installed here by itself on Debian and Ubuntu only. Install Docker and start dockerd."
        fi
        mkdir -p "$cache"
        echo "Installing docker.io and debootstrap (log: $cache/docker_install.log)"
        export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
        if ! { apt-get update && apt-get install --yes docker.io debootstrap debian-archive-keyring; } \
            > "$cache/docker_install.log" 2>&1; then
            tail -n 5 "$cache/docker_install.log" >&2
            fail "apt-get could not install docker.io and debootstrap. Check this machine's apt sources and network."
        fi
        # Where systemd runs, the package has started the engine.
        if answers; then
            return
        fi
    fi
    if [ -z "$(ls -A /sys/fs/cgroup)" ] && installed cgroupfs-mount; then
        cgroupfs-mount
    fi
    mkdir -p "$cache"
    # shellcheck disable=SC2046,SC2086 # flags are separate words
    setsid dockerd --host "$host" $(runtime) ${DOCKERD_FLAGS:-} > "$log" 2>&1 < /dev/null &
    echo $! > "$pid_file"
    tries=0
    until answers; do
        tries=$((tries + 1))
        # It may not have become dockerd yet, on a busy machine.
        if ! kill -0 "$(cat "$pid_file")" 2> /dev/null || [ "$tries" -ge 120 ]; then
            tail -n 5 "$log" >&2 || true
            stop
            fail "dockerd did not come up; the whole log is $log."
        fi
        sleep 0.5
    done
    echo "Started dockerd (process $(cat "$pid_file"), log: $log)"
}

stop() {
    if ours; then
        pid="$(cat "$pid_file")"
        kill "$pid"
        while ours; do
            sleep 0.2
        done
        echo "Ended dockerd (process $pid)"
    fi
    rm -f "$pid_file"
}

case "${1:-}" in
    start) start ;;
    stop) stop ;;
    *)
        echo "usage: $0 start|stop" >&2
        exit 2
        ;;
esac
