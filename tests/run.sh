#!/usr/bin/env bash
# Sets up (once) and runs the checks and all tests, two files at a time; arguments go to pytest. Works from any directory.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/run_all.sh" --setup
venv=$(realpath -m -- "${PKG_VENV:-$root/.venv}")
cd "$root"
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} PATH=$venv/bin:$PATH
ruff check .
exec python -m pytest -n 2 --dist loadfile "$@"
