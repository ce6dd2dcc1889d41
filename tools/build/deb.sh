#!/usr/bin/env bash
# tools/build/deb.sh DIR: the Debian packages prefillonly and prefillonly-camera, into DIR. The same commit makes the same bytes.
# DEB_VERSION names another version than the commit's.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
work=build/deb
go=$(tools/build/go.sh)
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
mtime=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

# Without a tag there is no release, and a version that sorts before all of them, by the commit's time.
if tag=$(git describe --tags --match 'v[0-9]*' 2>/dev/null); then
    version=$(sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/; s/-/~/g' <<<"$tag")
else
    version=0~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=8 HEAD)
fi
version=${DEB_VERSION:-$version}

rm -rf $work/tree && mkdir -p $work/bin $work/tree "$out"
$go build -trimpath -buildvcs=false -ldflags "-s -w -X github.com/prefillonly/prefillonly/internal/version.Release=$version" -o $work/bin/ ./cmd/prefillonly ./cmd/camera

# depends PROGRAM: the packages of the libraries that it links, with their least versions.
depends() {
    mkdir -p $work/shlibs/debian && echo 'Source: prefillonly' >$work/shlibs/debian/control
    (cd $work/shlibs && dpkg-shlibdeps -O -e "../bin/$1" 2>/dev/null) | sed 's/^shlibs:Depends=//'
}

# document PACKAGE PROGRAM [--rust]: what is below /usr/share/doc.
document() {
    local doc=$work/tree/$1/doc
    mkdir -p "$doc"
    tools/build/copyright.py "$work/bin/$2" "${@:3}" >"$doc/copyright"
    printf '%s (%s) unstable; urgency=medium\n\n  * Built from commit %s.\n\n -- The prefillonly authors <maintainers@prefillonly.invalid>  %s\n' \
        "$1" "$version" "$(git rev-parse HEAD)" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
}

# package NAME FIELDS: from the rest of its description on stdin.
package() {
    { cat <<-END
		name: $1
		arch: $(dpkg --print-architecture)
		version: $version
		version_schema: none
		mtime: $mtime
		maintainer: The prefillonly authors <maintainers@prefillonly.invalid>
		homepage: https://github.com/prefillonly/prefillonly
		priority: optional
		umask: 0o022
		deb: {compression: gzip, fields: {$2}}
		END
    cat; } >"$work/$1.yaml"
    $go run $nfpm package --packager deb --config "$work/$1.yaml" --target "$out/"
}

program=$work/bin/prefillonly
document prefillonly prefillonly --rust
tree=$work/tree/prefillonly
mkdir -p $tree/completion $tree/man
$program man --dir $tree/man
gzip -9n $tree/man/*
for shell in bash zsh fish; do $program completion $shell >$tree/completion/$shell; done
install -m 644 configs/prefillonly.service configs/prefillonly.sysusers configs/prefillonly.yaml configs/prefillonly.env $tree/
manuals=$(for page in $tree/man/*.gz; do
    name=${page%.gz}
    printf -- '- {src: %s, dst: /usr/share/man/man%s/%s, file_info: {mode: 0644}}\n' "$page" "${name##*.}" "$(basename "$page")"
done)
package prefillonly '' <<END
section: net
depends: ["$(depends prefillonly | sed 's/, /", "/g')", "systemd | systemd-standalone-sysusers | systemd-sysusers"]
suggests: [prefillonly-camera, libavformat59, libswscale6]
description: |-
  OpenAI-compatible server for work that is one forward pass
  prefillonly serves scoring, choosing, ranking, classifying and embedding
  with language models and encoders, and networks as ONNX files: work whose
  answer one forward pass gives. It speaks OpenAI's API and the Open Inference
  Protocol, and runs on the processor with a small demo model built in.
scripts: {postinstall: packaging/postinst, preremove: packaging/prerm, postremove: packaging/postrm}
contents:
- {src: $program, dst: /usr/bin/prefillonly, file_info: {mode: 0755}}
- {src: $tree/prefillonly.service, dst: /usr/lib/systemd/system/prefillonly.service, file_info: {mode: 0644}}
- {src: $tree/prefillonly.sysusers, dst: /usr/lib/sysusers.d/prefillonly.conf, file_info: {mode: 0644}}
- {src: $tree/prefillonly.yaml, dst: /etc/prefillonly/prefillonly.yaml, type: config, file_info: {mode: 0644}}
- {src: $tree/prefillonly.env, dst: /etc/default/prefillonly, type: config, file_info: {mode: 0640}}
- {src: $tree/completion/bash, dst: /usr/share/bash-completion/completions/prefillonly, file_info: {mode: 0644}}
- {src: $tree/completion/zsh, dst: /usr/share/zsh/vendor-completions/_prefillonly, file_info: {mode: 0644}}
- {src: $tree/completion/fish, dst: /usr/share/fish/vendor_completions.d/prefillonly.fish, file_info: {mode: 0644}}
- {src: $tree/doc/copyright, dst: /usr/share/doc/prefillonly/copyright, file_info: {mode: 0644}}
- {src: $tree/doc/changelog.gz, dst: /usr/share/doc/prefillonly/changelog.gz, file_info: {mode: 0644}}
$manuals
END

document prefillonly-camera camera
package prefillonly-camera 'Enhances: prefillonly' <<END
section: video
depends: ["$(depends camera | sed 's/, /", "/g')", libavformat59, libswscale6]
description: |-
  camera's side of prefillonly's video streams
  The program camera streams files and cameras to a server of prefillonly, and
  encodes video for it. It links libx264 and is under the GNU General Public
  License as a whole, unlike the server.
contents:
- {src: $work/bin/camera, dst: /usr/bin/camera, file_info: {mode: 0755}}
- {src: $work/tree/prefillonly-camera/doc/copyright, dst: /usr/share/doc/prefillonly-camera/copyright, file_info: {mode: 0644}}
- {src: $work/tree/prefillonly-camera/doc/changelog.gz, dst: /usr/share/doc/prefillonly-camera/changelog.gz, file_info: {mode: 0644}}
END
ls "$out"/*.deb
