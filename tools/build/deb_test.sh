#!/usr/bin/env bash
# tools/build/deb_test.sh DIR: what a newcomer does with the packages in DIR, in a fresh Debian that systemd boots in a container
# without network (systemd-nspawn, as root): install, start, ask, change the configuration, upgrade, remove, purge. Before it,
# lintian, and whether the packages are made of the same bytes again. The base system is kept in build/debian.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=$(realpath "$1")
[ "$(id -u)" = 0 ] || { echo "deb_test: run as root, as debootstrap and systemd-nspawn want it" >&2; exit 1; }
base=$PWD/build/debian
work=$PWD/build/deb_test
release=$(. /etc/os-release && echo "$VERSION_CODENAME")

lintian --fail-on error "$packages"/*.deb

echo "deb_test: the same packages again, and an upgrade"
rm -rf "$work" && mkdir -p "$work/again" "$work/upgrade" "$work/share"
tools/build/deb.sh "$work/again" >/dev/null
for f in "$packages"/*.deb; do cmp "$f" "$work/again/$(basename "$f")"; done
old=$(dpkg-deb -f "$packages"/prefillonly_*.deb Version)
DEB_VERSION=$old+upgrade tools/build/deb.sh "$work/upgrade" >/dev/null
cp "$packages"/prefillonly_*.deb "$work/share/"
cp "$work"/upgrade/prefillonly_*.deb "$work/share/upgrade.deb"

if ! [ -e "$base.made" ]; then
    echo "deb_test: a Debian system with systemd and curl, once"
    rm -rf "$base"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,curl,ca-certificates "$release" "$base" >build/debootstrap.log
    touch "$base.made"
fi
# What the package depends on is fetched with the network that the container does not have.
cp "$work"/share/prefillonly_*.deb "$base/tmp/"
chroot "$base" sh -c 'apt-get update -qq; apt-get install -y -qq --download-only /tmp/prefillonly_*.deb >/dev/null; rm /tmp/prefillonly_*.deb'

system=$work/system
cp -a --reflink=auto "$base" "$system"
cp tools/build/deb_newcomer.sh "$work/share/"
cat >"$system/etc/systemd/system/newcomer.service" <<'END'
[Unit]
After=multi-user.target
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
TimeoutStartSec=5min
StandardOutput=file:/share/log
StandardError=inherit
ExecStart=/bin/bash /share/deb_newcomer.sh
END
mkdir -p "$system/etc/systemd/system/default.target.wants"
ln -s ../newcomer.service "$system/etc/systemd/system/default.target.wants/"
status=0
systemd-nspawn --quiet --directory="$system" --register=no --keep-unit --private-network --bind="$work/share:/share" --boot \
    </dev/null >"$work/console" 2>&1 || status=$?
cat "$work/share/log"
[ "$status" = 0 ] && grep -q '^newcomer: done$' "$work/share/log" || { echo "deb_test: failed ($status); the console is in $work/console" >&2; exit 1; }
rm -rf "$system"
