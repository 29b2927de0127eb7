#!/bin/sh
# Starts the server of a container: with the arguments that are given, or from the environment.
set -eu

if [ "$#" -gt 0 ]; then
    exec omnigraph-server "$@"
fi
if [ -z "${OMNIGRAPH_CLUSTER:-}" ]; then
    echo "set OMNIGRAPH_CLUSTER to a directory with cluster.yaml or to a storage root" >&2
    exit 64
fi
exec omnigraph-server --cluster "$OMNIGRAPH_CLUSTER" --bind "${OMNIGRAPH_BIND:-0.0.0.0:8080}"
