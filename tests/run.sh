#!/usr/bin/env bash
# Sets up (once) and runs the checks and the tests. Works from any directory.
#   tests/run.sh          every behaviour, with some cases of slow tests left out
#   tests/run.sh --all    all cases, before a release
#   tests/run.sh --fast   the tests that take under a minute together
# Other arguments go to pytest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/run_all.sh" --setup
venv=$(realpath -m -- "${PKG_VENV:-$root/.venv}")
cd "$root"
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} PATH=$venv/bin:$PATH
chosen=(-m "not exhaustive")
case ${1:-} in
    --fast) chosen=(-m "not slow and not exhaustive"); shift ;;
    --all) chosen=(); shift ;;
esac
ruff check .
ruff format --check .
# mypy keeps one core busy for a minute, so it runs beside the tests. What it says comes after what they say.
types=$(mktemp)
mypy >"$types" 2>&1 &
checking=$!
trap 'kill "$checking" 2>/dev/null || true; rm -f "$types"' EXIT
code=0
# Several threads in each of two test processes would wait for one another on two cores.
OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} python -m pytest -n 2 --dist loadfile --no-loadscope-reorder "${chosen[@]}" "$@" || code=$?
wait "$checking" || code=$?
trap 'rm -f "$types"' EXIT
cat "$types"
exit "$code"
