#!/bin/sh
# Fetches ONNX's own tests of operations into build/onnx_node_tests: out of the Python package of a fixed version (18 MB),
# whatever Python is here. Ends with 69 where it cannot be fetched. Does nothing when they are there.
set -eu
cd "$(dirname "$0")/../.."
version=1.20.1
to=build/onnx_node_tests
[ "$(cat $to/version 2>/dev/null)" != $version ] || exit 0
rm -rf $to $to.part
mkdir -p $to.part
echo "onnx_node_tests: fetching ONNX's tests (18 MB)" >&2
python3 -m venv $to.part/venv
$to.part/venv/bin/pip download -q --no-deps --only-binary :all: --python-version 3.11 --implementation cp --abi cp311 \
    --platform manylinux_2_28_x86_64 -d $to.part "onnx==$version" >&2 || {
    echo "onnx_node_tests: onnx $version cannot be fetched from the Python package index" >&2
    rm -rf $to.part
    exit 69
}
$to.part/venv/bin/python -c '
import pathlib, sys, zipfile
to = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(to.glob("*.whl"))) as wheel:
    for name in wheel.namelist():
        if name.startswith("onnx/backend/test/data/node/") and not name.endswith("/"):
            path = to / name.removeprefix("onnx/backend/test/data/node/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wheel.read(name))
' $to.part
rm -rf $to.part/venv $to.part/*.whl
echo $version >$to.part/version
mv $to.part $to
