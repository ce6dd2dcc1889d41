#!/bin/sh
# Builds the static library of tokenizers, chat templates and grammars (engine/tokenizer/native) into
# engine/tokenizer/native/lib. Takes its Rust crates from the registry, and the source of
# github.com/daulet/tokenizers from the Go module of the version in go.mod. Does nothing when the
# library was built from the same inputs.
set -eu
cd "$(dirname "$0")/../.."
crate=engine/tokenizer/native
module=github.com/daulet/tokenizers
library=$crate/lib/libtokenizers.a
# The stamp is a header that the Go package includes, so that go build links a new library anew.
stamp=$crate/native_inputs.h

version=$(sed -n "s|^.*$module \(v[0-9.]*\).*|\1|p" go.mod)
inputs=$({ echo "$version"; cat tools/build/native.sh $crate/Cargo.toml $crate/Cargo.lock; for f in $crate/src/*.rs; do
    [ "$f" = $crate/src/daulet.rs ] || cat "$f"
done; } | sha256sum | cut -d' ' -f1)
line="static const char native_inputs[] __attribute__((used)) = \"$inputs\";"
if [ -f $library ] && [ "$(cat $stamp 2>/dev/null)" = "$line" ]; then exit 0; fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "native: cargo (Rust 1.87 or newer) is not installed; run tools/build/setup.sh" >&2
    exit 1
fi
go=$(tools/build/go.sh)
$go mod download "$module@$version"
cp -f "$($go env GOMODCACHE)/$module@$version/src/lib.rs" $crate/src/daulet.rs
chmod u+w $crate/src/daulet.rs
echo "native: building libtokenizers.a (3 minutes the first time)"
# One unstable feature, in one crate (src/budget.rs): an allocation that is refused unwinds.
(cd $crate && RUSTC_BOOTSTRAP=tokenizers cargo build --quiet --release --locked)
mkdir -p $crate/lib
cp -f $crate/target/release/libtokenizers.a $library
echo "$line" >$stamp
