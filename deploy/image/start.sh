#!/bin/sh
# Bring the compiled Triton module to the cache volume, which may be empty, then become the command.
set -eu
if [ -d /opt/triton ]; then
    mkdir -p "$TRITON_CACHE_DIR"
    cp -rn /opt/triton/. "$TRITON_CACHE_DIR"
fi
exec "$@"
