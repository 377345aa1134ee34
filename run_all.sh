#!/usr/bin/env bash
# Sets up (once) and runs the study. Works from any directory.
#   ./run_all.sh                       the committed study, re-rendered from stored completions
#   ./run_all.sh --model M --limit 20  options without a command are those of `run`
#   ./run_all.sh COMMAND ...           any command of `./run_all.sh --help`
#   ./run_all.sh --setup               only the set-up
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$(realpath -m -- "${PKG_VENV:-$root/.venv}")

fail() { echo "error: $1" >&2; exit 2; }

find_python() {
    for name in python3.11 python3.12 python3.13 python3; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' 2>/dev/null; then echo "$name"; return; fi
    done
    fail "Python 3.11.5 or newer is needed and none was found on PATH"
}

install_requirements() {
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

# A kernel of JupyterLab starts in notebooks/, so the package must be installed and not only lie beside it.
install_package() {
    local stamp want
    stamp=$venv/.pkg_lib
    want="$root $(sha256sum "$root/pyproject.toml" | cut -d' ' -f1)"
    [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ] && return
    # Without build isolation no network is asked: setuptools is one of the pins.
    "$venv/bin/pip" install -q --disable-pip-version-check --no-build-isolation --no-deps -e "$root" >&2 \
        || fail "the package cannot be installed into $venv; see above"
    # Notebooks are stored without outputs, also when JupyterLab saves them by itself.
    mkdir -p "$venv/etc/jupyter"
    echo '{"ContentsManager": {"pre_save_hook": "pkg_lib.lab.without_outputs"}}' >"$venv/etc/jupyter/jupyter_server_config.json"
    echo "$want" >"$stamp"
}

install_requirements
install_package
[ "${1:-}" = --setup ] && exit 0
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} PATH=$venv/bin:$PATH
exec "$venv/bin/python" -P -m pkg_lib "$@"
