#!/usr/bin/env bash
# Sets up (once) and runs the checks and all tests, or with --fast those that take under a minute together; other
# arguments go to pytest. Works from any directory.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/run_all.sh" --setup
venv=$(realpath -m -- "${PKG_VENV:-$root/.venv}")
cd "$root"
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} PATH=$venv/bin:$PATH
chosen=()
if [ "${1:-}" = --fast ]; then chosen=(-m "not slow"); shift; fi
ruff check .
ruff format --check .
mypy
exec python -m pytest -n 2 --dist loadfile --no-loadscope-reorder "${chosen[@]}" "$@"
