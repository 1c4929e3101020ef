#!/bin/sh
# A current Kubernetes by kind, for tests: see kubernetes_node/kind.py.
here="$(cd "$(dirname "$0")/../.." && pwd)"
PYTHONPATH="$here/tests:$here/.collections" exec "$here/.venv/bin/python" -m support.kubernetes_node.kind "$@"
