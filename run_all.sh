#!/usr/bin/env bash
# Sets up (once) and runs the study. Works from any directory.
#   ./run_all.sh                       the committed study, re-rendered from stored completions
#   ./run_all.sh --model M --limit 20  what `python -m pkg_lib run` takes
#   ./run_all.sh --setup               only the set-up
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$(realpath -m -- "${PKG_VENV:-$root/.venv}")

fail() { echo "error: $1" >&2; exit 2; }

find_python() {
    for name in python3.11 python3.12 python3.13 python3; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo "$name"; return; fi
    done
    fail "Python 3.11 or newer is needed and none was found on PATH"
}

set_up() {
    local stamp want python
    stamp=$venv/.requirements.sha256
    want=$(sha256sum "$root/requirements.txt" | cut -d' ' -f1)
    [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ] && return
    python=$(find_python)
    echo "setting up $venv (once, some minutes)" >&2
    "$python" -m venv "$venv" || fail "cannot make $venv; free space or set PKG_VENV"
    torch=$(grep '^torch==' "$root/requirements.txt")
    # The CPU build first: PyPI's own Linux wheel of torch brings gigabytes of CUDA along.
    "$venv/bin/pip" install -q --disable-pip-version-check "$torch+cpu" 2>/dev/null \
        || "$venv/bin/pip" install -q --index-url https://download.pytorch.org/whl/cpu "$torch+cpu" 2>/dev/null \
        || "$venv/bin/pip" install -q "$torch" \
        || fail "torch cannot be installed; see above"
    # The stamp is written only after pip itself succeeded: `pip check` does not notice what was never installed.
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$root/requirements.txt" >&2 \
        || fail "the packages of requirements.txt cannot be installed; see above, then start again"
    "$venv/bin/pip" check >/dev/null || fail "the installation is incomplete: $("$venv/bin/pip" check | head -1)"
    echo "$want" >"$stamp"
}

set_up
[ "${1:-}" = --setup ] && exit 0
# Notebooks run in the checkout, so the caller's relative paths are made absolute once, here.
for name in PKG_RESULTS PKG_CACHE PKG_PAPER_DIR PKG_MBPP_DIR PKG_PYTHON_DOCS PKG_JAVA_SOURCE; do
    [ -z "${!name:-}" ] || export "$name=$(realpath -m -- "${!name}")"
done
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} PATH=$venv/bin:$PATH
case "${1:-}" in
    run | report | show | graph | enhance | structure | replay | chunk | doctor | fetch | verify-cache | list | typegraph | repo-qa) ;;
    *) set -- run "$@" ;;
esac
exec "$venv/bin/python" -m pkg_lib "$@"
