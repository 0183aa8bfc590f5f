#!/bin/sh
# Install the service itself into the virtual environment, from its source, without the network.
# Usage: install_service.sh VENV SOURCE
set -eu
"$1/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation "$2"
# Nothing is installed into a finished image.
"$1/bin/python" -m pip --disable-pip-version-check uninstall --quiet --yes pip
