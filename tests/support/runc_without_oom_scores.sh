#!/bin/sh
# A runtime for dockerd on machines whose root may not lower a process's OOM score (no CAP_SYS_RESOURCE): runc itself
# would refuse every container that asks for that, as the sandboxes of Kubernetes' pods do. Called as runc is.
set -eu
before=""
for word in "$@"; do
    if [ "$before" = --bundle ] || [ "$before" = -b ]; then
        sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$word/config.json"
    fi
    before="$word"
done
exec runc "$@"
