#!/usr/bin/env bash
# Sets up (once) and runs the study. Works from any directory.
#   ./run_all.sh                       the committed study, re-rendered from stored completions
#   ./run_all.sh --model M --limit 20  options without a command are those of `run`
#   ./run_all.sh COMMAND ...           any command of `./run_all.sh --help`
#   ./run_all.sh --setup               only the set-up: the CUDA build that fits the driver, or else the CPU build
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

# Sets `build` to cu130, cu126 or cpu, and `reason`. PKG_TORCH decides by hand.
choose_build() {
    local listed gpu
    build=cpu
    case "${PKG_TORCH:-auto}" in
        cpu | cu126 | cu130) build=$PKG_TORCH; reason="PKG_TORCH is $PKG_TORCH"; return ;;
        auto | cuda) ;;
        *) fail "PKG_TORCH=$PKG_TORCH names no build of torch; set it to cpu, cuda, cu126, cu130 or auto" ;;
    esac
    listed=$(ask_nvidia_smi -L)
    gpu=$(sed -n 's/ (UUID.*//; /^GPU [0-9]/{p;q;}' <<<"$listed")
    if [ -z "$gpu" ] && [ "${PKG_TORCH:-auto}" = cuda ]; then
        build=cu130
        reason="PKG_TORCH is cuda and nvidia-smi lists no GPU"
    elif ! command -v nvidia-smi >/dev/null; then
        reason="there is no nvidia-smi on PATH"
    elif [ -z "$gpu" ]; then
        reason="nvidia-smi lists no GPU"
    else
        choose_cuda "$gpu"
    fi
}

# What nvidia-smi answers; nothing if it fails. A driver that does not answer must not hold up the set-up.
ask_nvidia_smi() {
    local answer
    if answer=$(timeout 60 nvidia-smi "$@" 2>/dev/null); then echo "$answer"; fi
}

# torch has two CUDA builds here. The one for CUDA 13.0 is PyPI's; it needs a driver for CUDA 13 and a GPU of compute
# capability 7.5 or more. The one for CUDA 12.6 runs on every driver for CUDA 12 or later, since the minor versions of
# CUDA 12 are compatible, and on compute capabilities 5.0 to 9.0.
choose_cuda() {
    local answer cuda capability
    answer=$(ask_nvidia_smi)
    cuda=$(sed -n '/CUDA[A-Z ]* Version: *[0-9]/{s/.*CUDA[A-Z ]* Version: *\([0-9.]*\).*/\1/p;q;}' <<<"$answer")
    answer=$(ask_nvidia_smi --query-gpu=compute_cap --format=csv,noheader)
    capability=$(sed -n '1s/^\([0-9]*\)\.\([0-9]\)$/\1\2/p' <<<"$answer")
    reason="nvidia-smi lists $1 and names no CUDA version"
    if [ -n "$cuda" ]; then reason="nvidia-smi lists $1, driver for CUDA $cuda"; fi
    if [ -n "$capability" ]; then reason="$reason, compute capability ${capability%?}.${capability: -1}"; fi
    if [ "${cuda%.*}" -ge 13 ] 2>/dev/null && [ "${capability:-80}" -ge 75 ]; then
        build=cu130
    elif [ "${cuda%.*}" -ge 12 ] 2>/dev/null && [ "${capability:-80}" -le 90 ]; then
        build=cu126
    elif [ "${PKG_TORCH:-auto}" = cuda ]; then
        fail "no CUDA build of torch fits: $reason; update the driver, or set PKG_TORCH to cpu, cu126 or cu130"
    else
        reason="no CUDA build of torch fits: $reason"
    fi
}

# PyPI has faiss-gpu only for this platform.
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
    echo "CUDA build: torch $(pinned torch requirements.txt) for CUDA ${build:2:2}.${build:4} and $faiss ($reason)"
}

# What the stamp of an environment with a build is: the digest of what was installed, and the name of a CUDA build.
stamp_of() {
    if [ "$1" = cpu ]; then
        sha256sum "$root/requirements.txt" | cut -d' ' -f1
    else
        echo "$(cat "$root/requirements.txt" "$root/requirements-gpu.txt" | sha256sum | cut -d' ' -f1) $1"
    fi
}

# In an environment that login nodes and GPU nodes share, a CUDA build serves both.
is_installed() {
    local stamp
    stamp=$(cat "$venv/.requirements.sha256" 2>/dev/null || true)
    [ "$stamp" = "$(stamp_of "$build")" ] && return
    [ "${PKG_TORCH:-auto}" = auto ] && [ "$build" = cpu ] || return
    [ "$stamp" = "$(stamp_of cu130)" ] || [ "$stamp" = "$(stamp_of cu126)" ]
}

# The name of a build, or nothing where the set-up was never completed.
installed_build() {
    case $(cat "$venv/.requirements.sha256" 2>/dev/null || true) in
        "") ;;
        *" "*) sed 's/.* //' "$venv/.requirements.sha256" ;;
        *) echo cpu ;;
    esac
}

# Bytecode is compiled once at the end, on all cores; pip would compile every package on one.
pip_install() { "$venv/bin/pip" install -q --disable-pip-version-check --no-compile "$@"; }

install_torch() {
    local torch
    torch=torch==$(pinned torch requirements.txt)
    if [ "$build" = cu130 ]; then
        # Three equals signs: a local version such as +cpu, which two would take, is another one.
        pip_install "${torch/==/===}" >&2
        return
    fi
    # PyPI's own Linux wheel of torch is for CUDA 13 and brings gigabytes along, so it comes last, and only for the CPU.
    pip_install "$torch+$build" 2>/dev/null && return
    if [ "$build" = cu126 ]; then
        pip_install --index-url "https://download.pytorch.org/whl/$build" "$torch+$build" >&2
        return
    fi
    pip_install --index-url "https://download.pytorch.org/whl/$build" "$torch+$build" 2>/dev/null && return
    echo "no package index here has the CPU build of torch; installing the default build, which may be larger" >&2
    pip_install "$torch" >&2
}

# What pip installs beside torch. The pins of CUDA libraries are those of the build for CUDA 13; the one for CUDA 12.6
# names its own libraries exactly.
write_requirements() {
    cp "$root/requirements.txt" "$venv/requirements.txt"
    if [ "$build" = cpu ] || ! has_faiss_gpu; then return; fi
    grep -v '^faiss-cpu==' "$root/requirements.txt" >"$venv/requirements.txt"
    if [ "$build" = cu130 ]; then
        cat "$root/requirements-gpu.txt" >>"$venv/requirements.txt"
    else
        grep '^faiss-gpu==' "$root/requirements-gpu.txt" >>"$venv/requirements.txt"
    fi
}

install_requirements() {
    local python problems
    choose_build
    if [ "$dry_run" = no ] && is_installed; then return; fi
    describe_build >&2
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
    install_torch || fail "the $build build of torch cannot be installed; see above, or choose another by PKG_TORCH"
    write_requirements
    # The stamp is written only after pip itself succeeded: `pip check` does not notice what was never installed.
    pip_install -r "$venv/requirements.txt" >&2 \
        || fail "the packages of requirements.txt cannot be installed; see above, then start again"
    # The package itself names faiss-cpu, whose place faiss-gpu takes.
    problems=$("$venv/bin/pip" check \
        | grep -v -e "requires faiss-cpu, which is not installed" -e "^No broken requirements found" || true)
    [ -z "$problems" ] || fail "the installation is incomplete: $(head -1 <<<"$problems")"
    # What is not compiled here is compiled at its import: the tests of packages, and files of another version of Python.
    "$venv/bin/python" -m compileall -q -j 0 -x '/tests?/' "$venv/lib" >/dev/null 2>&1 || true
    stamp_of "$build" >"$venv/.requirements.sha256"
}

# A kernel of JupyterLab starts in notebooks/, so the package must be installed; it is not in that directory.
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

setup=no dry_run=no
for option in "$@"; do
    if [ "$option" = --setup ]; then setup=yes; fi
done
if [ "$setup" = yes ]; then
    for option in "$@"; do
        case $option in
            --setup) ;;
            --dry-run) dry_run=yes ;;
            *) fail "--setup takes no option but --dry-run" ;;
        esac
    done
fi
install_requirements
if [ "$dry_run" = yes ]; then exit 0; fi
install_package
if [ "$setup" = yes ]; then exit 0; fi
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} PATH=$venv/bin:$PATH
exec "$venv/bin/python" -P -m pkg_lib "$@"
