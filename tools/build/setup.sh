#!/bin/sh
# Installs what a Debian machine lacks to build and test prefillonly: C and Rust compilers, libzmq, Go,
# the headers of FFmpeg and x264 for video, and for tests alone oneDNN, the ffmpeg program and Python (whose package index
# has the compiler of the GPU kernels).
# Arguments are further packages, which some checks alone need. As root it installs; otherwise it prints the one command
# to run. Does nothing when all is there.
set -eu
cd "$(dirname "$0")/../.."

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
candidate() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'; }
# minor PROGRAM VERSION-COMMAND: the y of version x.y, or 0 when the program is missing.
minor() { command -v "$1" >/dev/null 2>&1 && "$@" 2>/dev/null | grep -oE '1\.[0-9]+' | head -n 1 | cut -d. -f2 || echo 0; }

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "setup: this is not a Debian system. Install a C compiler, Go 1.26, Rust 1.87 or newer," >&2
    echo "setup: libzmq (4.3), oneDNN (2.6 or 3), FFmpeg (5.1 or newer) and x264 with their headers by hand, then run 'make build'." >&2
    exit 1
fi

missing=
for package in gcc g++ libc6-dev pkg-config ca-certificates libzmq3-dev libdnnl-dev python3-venv \
    libavformat-dev libswscale-dev libx264-dev ffmpeg "$@"; do
    installed "$package" || missing="$missing $package"
done
# Any Go of 1.21 or later fetches the version go.mod names; an older one fetches it through tools/build/go.sh.
[ "$(minor go version)" -gt 0 ] || missing="$missing golang-go"
if [ "$(minor cargo --version)" -lt 87 ]; then
    # Debian 12 carries its newer compiler under another name.
    if [ -n "$missing" ] && [ "$(id -u)" = 0 ]; then apt-get update -qq; fi
    if candidate cargo-web; then missing="$missing cargo-web rustc-web"; else missing="$missing cargo"; fi
fi

[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "setup: missing packages. Run this once, then make again:" >&2
    echo "    sudo sh -c 'apt-get update && apt-get install -y$missing'" >&2
    exit 1
fi
echo "setup: installing$missing"
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
