#!/bin/bash
# Stream a file as a camera does, in real time and to a server on the same machine, and print what became of the frames, and what takes the processor.
#   tools/measure/live.sh NETWORK.onnx CLIP        METHOD=dds FPS=10 DEADLINE=1000 (ms) SECONDS_EACH=60 DECODER=yolox
set -euo pipefail
cd "$(dirname "$0")/../.."
network=${1:?give a network that takes pictures, as an ONNX file} clip=${2:?give a file of video}
. tools/measure/serve.bash
camera=${CAMERA:-$(dirname "$binary")/camera} seconds=${SECONDS_EACH:-60} fps=${FPS:-10} deadline=${DEADLINE:-1000}
url=http://127.0.0.1:8153/v1/video/streams

# spent PID: the processor's seconds that a process has taken.
spent() { awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); printf "%.2f", ($12 + $13) / tick }' "/proc/$1/stat"; }

serve_models 8153 "$(network_entry "$network")"
curl -s --fail-with-body --retry 10 --retry-delay 1 "$url" -o "$work/declared" \
  -d "{\"name\":\"street\",\"source\":\"camera\",\"method\":\"${METHOD:-dds}\",\"rate\":$fps,\"deadline_ms\":$deadline}" || { cat "$work/declared" >&2; exit 1; }
for p in $(pgrep -P "${servers[0]}"); do echo "$p $(tr '\0' ' ' <"/proc/$p/cmdline" | awk '{ print $2 == "video" ? "video" : $2 }') $(spent "$p")"; done >"$work/before"
timeout -s INT "$seconds" "$camera" run --json --server http://127.0.0.1:8153 --stream street --source "$clip" --rate "$fps" --loop >"$work/camera" || true
while read -r p role taken; do echo "$role $taken $(spent "$p")"; done <"$work/before" >"$work/after"
curl -fsS "$url/street" >"$work/status"

# figure NAME FILE: a number of the JSON in a file's last line.
figure() { tail -n 1 "$2" | grep -o "\"$1\":[-0-9.e]*" | tail -n 1 | cut -d: -f2; }
elapsed=$(figure elapsed_s "$work/camera") captured=$(figure frames "$work/camera")
echo "${METHOD:-dds}, $fps frames/s for $elapsed s, deadline $deadline ms from a segment's coming"
echo "camera: $captured frames, $(figure dropped "$work/camera") dropped; results $(figure delay_s "$work/camera") s after a segment's last frame"
echo "server: $(figure frames "$work/status") frames with results, $(figure late "$work/status") late, $(figure dropped "$work/status") dropped; mean latency $(figure latency_ms "$work/status") ms; $(figure bytes_a "$work/status") bytes on stream A, $(figure bytes_b "$work/status") on B"
echo
echo "| | seconds | ms a frame | of a core |"
echo "|---|---|---|---|"
row() { awk -v n="$1" -v s="$2" -v f="$captured" -v e="$elapsed" 'BEGIN { printf "| %s | %.2f | %.2f | %.1f %% |\n", n, s, 1000 * s / f, 100 * s / e }'; }
for part in decode scale encode_a encode_b; do row "camera: $part" "$(figure "${part}_s" "$work/camera")"; done
for part in decode scale read; do row "server: $part" "$(figure "${part}_s" "$work/status")"; done
row "server: detect, in passes (on all cores)" "$(figure device_s "$work/status")"
while read -r role before after; do row "the process $role, all" "$(awk "BEGIN { print $after - $before }")"; done <"$work/after"
echo
echo "Frames waited $(figure turn_s "$work/status") s for a turn of the processor and $(figure queue_s "$work/status") s for passes, all together."
