#!/bin/sh
# Installs Chromium, by which `make test` looks at the page of video streams. Without it that test is skipped.
set -eu
command -v chromium >/dev/null 2>&1 && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "browser: chromium is missing, and the page of video streams is not tested: apt-get install -y chromium" >&2
    exit 69
fi
echo "browser: installing chromium"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null || {
    echo "browser: chromium cannot be installed, and the page of video streams is not tested" >&2
    exit 69
}
