#!/usr/bin/env bash
# Sets up (once) and runs the study. Works from any directory.
#   ./run_all.sh                       the committed study, re-rendered from stored completions
#   ./run_all.sh --model M --limit 20  options without a command are those of `run`
#   ./run_all.sh COMMAND ...           any command of `./run_all.sh --help`
#   ./run_all.sh --setup               only the set-up: the CUDA build where nvidia-smi lists a GPU, else the CPU build
#   ./run_all.sh --setup --dry-run     says which build would be installed, and installs nothing
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

# Sets `build` to cuda where nvidia-smi lists a GPU, else to cpu, and `reason`. PKG_TORCH decides by hand.
choose_build() {
    local listed
    case "${PKG_TORCH:-auto}" in
        cpu | cuda) build=$PKG_TORCH; reason="PKG_TORCH is $PKG_TORCH"; return ;;
        auto) ;;
        *) fail "PKG_TORCH=$PKG_TORCH names no build of torch; set it to cpu, cuda or auto" ;;
    esac
    build=cpu
    if ! command -v nvidia-smi >/dev/null; then
        reason="there is no nvidia-smi on PATH"
    # A driver that does not answer must not hold up the set-up.
    elif listed=$(timeout 60 nvidia-smi -L 2>/dev/null) && grep -q '^GPU [0-9]' <<<"$listed"; then
        build=cuda
        reason="nvidia-smi lists $(grep -m 1 '^GPU [0-9]' <<<"$listed" | sed 's/ (UUID.*//')"
    else
        reason="nvidia-smi lists no GPU"
    fi
}

# PyPI has faiss-gpu for this platform alone.
has_faiss_gpu() { [ "$(uname -sm)" = "Linux x86_64" ]; }

pinned() { sed -n "s/^$1==//p" "$root/$2"; }

# What the set-up installs, in one line.
describe_build() {
    local faiss
    faiss="faiss-cpu $(pinned faiss-cpu requirements.txt)"
    if [ "$build" = cpu ]; then
        echo "CPU build: torch $(pinned torch requirements.txt)+cpu and $faiss ($reason)"
        return
    fi
    has_faiss_gpu && faiss="faiss-gpu $(pinned faiss-gpu requirements-gpu.txt)"
    echo "CUDA build: torch $(pinned torch requirements.txt) and $faiss ($reason)"
}

# The driver has to be as new as the CUDA that torch brings along, which the name of its cuDNN package says.
check_driver() {
    local offered needed
    needed=$(sed -n 's/^nvidia-cudnn-cu\([0-9]*\)==.*/\1/p' "$root/requirements-gpu.txt")
    offered=$(timeout 60 nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9]*\).*/\1/p' | head -1) || true
    if [ -n "$offered" ] && [ "$offered" -lt "$needed" ]; then
        echo "warning: the GPU's driver supports CUDA $offered and this torch needs CUDA $needed; update the driver" \
            "or set PKG_TORCH=cpu" >&2
    fi
}

# A stamp holds the digest of what was installed, and "cuda" where that is the CUDA build. In an environment that
# login nodes and GPU nodes share, the CUDA build serves both.
is_installed() {
    local stamp
    stamp=$(cat "$venv/.requirements.sha256" 2>/dev/null || true)
    [ "$stamp" = "$want" ] || { [ "${PKG_TORCH:-auto}" = auto ] && [ "$stamp" = "$want_cuda" ]; }
}

# cuda, cpu, or nothing where the set-up was never completed.
installed_build() {
    case $(cat "$venv/.requirements.sha256" 2>/dev/null || true) in
        "") ;;
        *" cuda") echo cuda ;;
        *) echo cpu ;;
    esac
}

install_torch() {
    local torch
    torch=torch==$(pinned torch requirements.txt)
    if [ "$build" = cuda ]; then
        # Three equals signs: a local version such as +cpu, which two would take, is another one.
        "$venv/bin/pip" install -q --disable-pip-version-check "${torch/==/===}" >&2
        return
    fi
    # PyPI's own Linux wheel of torch brings gigabytes of CUDA along, so it comes last.
    "$venv/bin/pip" install -q --disable-pip-version-check "$torch+cpu" 2>/dev/null && return
    "$venv/bin/pip" install -q --index-url https://download.pytorch.org/whl/cpu "$torch+cpu" 2>/dev/null && return
    echo "no package index here has the CPU build of torch; installing the default build, which may be larger" >&2
    "$venv/bin/pip" install -q "$torch" >&2
}

install_requirements() {
    local python problems want want_cuda
    want=$(sha256sum "$root/requirements.txt" | cut -d' ' -f1)
    want_cuda="$(cat "$root/requirements.txt" "$root/requirements-gpu.txt" | sha256sum | cut -d' ' -f1) cuda"
    choose_build
    [ "$build" = cuda ] && want=$want_cuda
    if [ "$dry_run" = no ] && is_installed; then return; fi
    describe_build >&2
    [ "$build" = cuda ] && check_driver
    python=$(find_python)
    if [ "$dry_run" = yes ]; then
        if is_installed; then echo "$venv is set up already" >&2; else echo "$venv would be set up with $python" >&2; fi
        return
    fi
    echo "setting up $venv (once, some minutes)" >&2
    "$python" -m venv "$venv" || fail "cannot make $venv; free space or set PKG_VENV"
    if [ -n "$(installed_build)" ] && [ "$(installed_build)" != "$build" ]; then
        # Both builds of faiss have the same files, so one must go before the other comes.
        rm "$venv/.requirements.sha256"
        "$venv/bin/pip" uninstall -q -y faiss-cpu faiss-gpu >&2
    fi
    install_torch || fail "torch cannot be installed; see above"
    cp "$root/requirements.txt" "$venv/requirements.txt"
    if [ "$build" = cuda ] && has_faiss_gpu; then
        grep -v '^faiss-cpu==' "$root/requirements.txt" | cat - "$root/requirements-gpu.txt" >"$venv/requirements.txt"
    fi
    # The stamp is written only after pip itself succeeded: `pip check` does not notice what was never installed.
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$venv/requirements.txt" >&2 \
        || fail "the packages of requirements.txt cannot be installed; see above, then start again"
    # The package itself names faiss-cpu, whose place faiss-gpu takes.
    problems=$("$venv/bin/pip" check \
        | grep -v -e "requires faiss-cpu, which is not installed" -e "^No broken requirements found" || true)
    [ -z "$problems" ] || fail "the installation is incomplete: $(head -1 <<<"$problems")"
    echo "$want" >"$venv/.requirements.sha256"
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

dry_run=no
if [ "${1:-}" = --setup ]; then
    [ "${2:---dry-run}" = --dry-run ] && [ $# -le 2 ] || fail "--setup takes no option but --dry-run"
    [ $# = 2 ] && dry_run=yes
fi
install_requirements
if [ "$dry_run" = yes ]; then exit 0; fi
install_package
[ "${1:-}" = --setup ] && exit 0
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} PATH=$venv/bin:$PATH
exec "$venv/bin/python" -P -m pkg_lib "$@"
