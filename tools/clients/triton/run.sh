#!/bin/bash
# tritonclient and perf_analyzer: a network under the Open Inference Protocol.
. "$(dirname "$0")/../group.bash"
venv
"$python" $here/make_network.py "$work/pixels.onnx"
serve_models "$port" "{path: $work/pixels.onnx, keep: on-demand, image: {order: BGR, letterbox: 114}}" -- "${keys[@]}"
"$python" $here/oip.py "127.0.0.1:$port" "$key" "$admin"
$here/perf_analyzer.sh "$pip" "127.0.0.1:$port" "$key"
