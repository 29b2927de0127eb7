#!/bin/bash
# The entry point of the image. Without arguments it serves what the environment names; options go to omnigraph-server,
# any other command is run as it is, and `healthy` asks the server of this container whether it lives.
set -eu

bind="${OMNIGRAPH_BIND:-0.0.0.0:8080}"

case "${1:-}" in
healthy)
    host="${bind%:*}" host="${host#[}" host="${host%]}"
    case "$host" in
    0.0.0.0) host=127.0.0.1 ;;
    ::) host=::1 ;;
    esac
    # The shell connects by itself: the image has no curl, and a Python would take a core for half a second each time.
    exec 3<>"/dev/tcp/$host/${bind##*:}"
    printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
    read -r -t 2 _ status _ <&3
    [ "$status" = 200 ]
    ;;
-*) exec omnigraph-server --bind "$bind" "$@" ;;
?*) exec "$@" ;;
*)
    if [ -n "${OMNIGRAPH_CLUSTER:-}" ]; then
        exec omnigraph-server --cluster "$OMNIGRAPH_CLUSTER" --bind "$bind"
    elif [ -n "${OMNIGRAPH_STORE:-}" ]; then
        exec omnigraph serve --bind "$bind"
    fi
    echo "set OMNIGRAPH_CLUSTER to a cluster (its directory or storage root), or OMNIGRAPH_STORE to one graph" >&2
    exit 64
    ;;
esac
