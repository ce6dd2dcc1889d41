#!/bin/sh
# Prints the go command to build with: the installed one, when it can switch to the version that
# go.mod names by itself (1.21 and later); otherwise that version, fetched as a module into build/_go (which ./... passes over).
set -eu
cd "$(dirname "$0")/../.."
want=$(sed -n 's/^toolchain go//p' go.mod)
have=$(go version | grep -oE 'go1\.[0-9]+' | head -n 1)
if [ "${have#go1.}" -ge 21 ]; then
    echo go
    exit 0
fi
root=$PWD/build/_go
if ! [ -x "$root/bin/go" ]; then
    module=golang.org/toolchain@v0.0.1-go$want.linux-$(go env GOARCH)
    mkdir -p build/fetch
    (cd build/fetch && { [ -f go.mod ] || go mod init fetch >/dev/null 2>&1; } && GOFLAGS=-mod=mod go mod download "$module")
    cp -r "$(go env GOMODCACHE)/$module" "$root"
    chmod -R u+w "$root"
    find "$root/bin" "$root/pkg/tool" -type f -exec chmod +x {} +
fi
echo "$root/bin/go"
