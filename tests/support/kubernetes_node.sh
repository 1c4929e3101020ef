#!/bin/sh
# Real nodes of Kubernetes on this machine, for tests: see kubernetes_node/node.py.
here="$(cd "$(dirname "$0")/../.." && pwd)"
PYTHONPATH="$here/tests" exec "$here/.venv/bin/python" -m support.kubernetes_node.node "$@"
