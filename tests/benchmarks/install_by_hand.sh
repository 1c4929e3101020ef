#!/bin/sh
# What people type who follow an article on CPU clusters: the same pip commands on each host, one host after another,
# then passwordless SSH from the first host to all.
#
#   install_by_hand.sh SSH_CONFIG INDEX "PACKAGE==VERSION ..." HOST=ADDRESS ...
#
# SSH_CONFIG: for ssh, how the hosts are reached. INDEX: the URL of a page with links to all wheels. ADDRESS: the host's
# own on the cluster's network. The hosts have a bare Python, without pip and ensurepip.
set -eu

config=$1 index=$2 packages=$3
shift 3
pip=$(echo "$packages" | tr ' ' '\n' | sed -n 's/^pip==//p')

on() {
    ssh -F "$config" "$@"
}

for pair in "$@"; do
    on "${pair%%=*}" sh -eus "$index" "$pip" "$packages" << 'HOST'
index=$1 pip=pip-$2-py3-none-any.whl
shift 2
server=${index#http://}
python3 -m venv --without-pip cluster_env
. cluster_env/bin/activate
python -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' "$index/$pip" "$pip"
links="--no-index --find-links $index --trusted-host ${server%%:*}"
python "$pip/pip" install --quiet $links pip
# All in one command, so that dependencies are resolved only once.
pip install --quiet $links $*
HOST
done

[ $# -gt 1 ] || exit 0
head=${1%%=*}
on "$head" "ssh-keygen -q -t ed25519 -N '' -f .ssh/cluster"
for pair in "$@"; do
    on "$head" cat .ssh/cluster.pub | on "${pair%%=*}" 'cat >> .ssh/authorized_keys'
    printf 'Host %s\n  HostName %s\n' "${pair%%=*}" "${pair#*=}"
    printf '  IdentityFile ~/.ssh/cluster\n  StrictHostKeyChecking no\n'
done | on "$head" 'cat >> .ssh/config && chmod 600 .ssh/config'
