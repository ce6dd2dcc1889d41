# Sourced first by the run.sh of each group of clients. Leaves the repository's root as the directory, and
#   $here            the group's directory
#   $build           a directory of the group's own that is kept, and $work one that is not
#   $url, $key       of the server, once there is one; $admin is a key that may load models, $port the port of $url
#   venv             makes $python and $pip, with what requirements.txt of the group pins; overrides.txt says what is left out of it
#   unreached WHAT   ends the group with 69, which says that it was not run, for a package index cannot be reached
#   models NAME... [-- FLAG...]  serves some of the small models: lm (the demo model), embedder, ranker, classifier
#   serve, stop      any other server (tools/measure/serve.bash); "${keys[@]}" are the flags for the two keys
#   go_tests DIR     runs the Go tests of that module
set -euo pipefail
cd "$(dirname "$0")/../../.."
group=$(basename "$(dirname "$0")")
here=tools/clients/$group
build=build/clients/$group
mkdir -p "$build"
command -v curl >/dev/null || tools/build/setup.sh curl
. tools/measure/serve.bash

port=${PORT:-$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
url=http://127.0.0.1:$port
key=clients-test-key
admin=clients-admin-key
printf '%s\n%s @admin\n' "$key" "$admin" >"$work/keys"
keys=(--api-key-file "$work/keys")
# What is imported is compiled once, and nothing is written beside the sources.
export PYTHONPATH=tools/clients/lib PYTHONPYCACHEPREFIX=$PWD/build/clients/pycache

unreached() {
    echo "$group: not run: $1 cannot be reached"
    exit 69
}

venv() {
    local made=$build/venv pins=("$here"/requirements.txt) overrides=()
    python=$made/bin/python pip=$made/bin/pip
    [ ! -f "$here/overrides.txt" ] || { overrides=(--override "$here/overrides.txt") && pins+=("$here/overrides.txt"); }
    cat "${pins[@]}" >"$work/pins"
    ! cmp -s "$work/pins" "$made/installed" || return 0
    rm -rf "$made"
    python3 -m venv "$made"
    installer
    install "${overrides[@]}" || install "${overrides[@]}" || {
        "$pip" download -q --no-deps --no-cache-dir -d "$work/probe" "$uv" || unreached "the Python package index"
        return 1
    }
    cp "$work/pins" "$made/installed"
}

# installer leaves uv, which keeps what it fetches for all groups, in build/clients/uv.
uv=uv==0.13.8
installer() {
    [ "$(cat build/clients/uv/installed 2>/dev/null)" != $uv ] || return 0
    "$pip" install -q --disable-pip-version-check --upgrade --target build/clients/uv "$uv" || unreached "the Python package index"
    echo $uv >build/clients/uv/installed
}

install() {
    UV_CACHE_DIR=build/clients/cache UV_HTTP_TIMEOUT=180 build/clients/uv/bin/uv pip install -q --python "$python" "$@" -r "$here/requirements.txt"
}

models() {
    local entries=() name
    python3 tools/clients/lib/make_scorers.py engine/demo/files "$work/models"
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        name=$1
        shift
        case $name in
        lm) entries+=("{path: $PWD/engine/demo/files, name: lm, keep: always}") ;;
        *) entries+=("{path: $work/models/$name, keep: always}") ;;
        esac
    done
    serve_models "$port" "${entries[@]}" -- "${keys[@]}" "${@:2}"
}

# go_tests DIRECTORY: runs the tests of a module of its own; each is a check.
go_tests() {
    local go
    go=$(tools/build/go.sh)
    (cd "$1" && "$go" mod download) || {
        (cd "$1" && GOFLAGS=-mod=mod "$go" list -m golang.org/x/mod@latest) || unreached "the module proxy"
        return 1
    }
    (cd "$1" && "$go" test -count 1 -v ./...) 2>&1 | tee "$work/tests" | sed -E '/^(=== |PASS|ok )/d'
    echo "$1: $(grep -c -- '--- PASS' "$work/tests") checks passed"
}
