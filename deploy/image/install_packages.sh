#!/bin/sh
# Make a virtual environment that holds exactly what lock files name.
# Usage: install_packages.sh VENV LOCK...
# TORCH_INDEX: where the CPU build of torch is looked for if the configured index does not have it.
set -eu
venv=$1
shift
python3.11 -m venv "$venv"
pip="$venv/bin/python -m pip --disable-pip-version-check install --quiet --no-deps"
torch=$(cat "$@" | grep '^torch==' || true)
if [ -n "$torch" ]; then
    $pip "$torch" || $pip --extra-index-url "$TORCH_INDEX" "$torch"
fi
for lock in "$@"; do
    $pip --requirement "$lock"
done
