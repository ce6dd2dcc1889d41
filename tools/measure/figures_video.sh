#!/bin/bash
# Compute and draw the results of bench/REPRODUCTION.md's chapters about video anew, into bench/results/video: all of them, or the parts that are named.
#     tools/measure/figures_video.sh [tuning] [short] [known] [methods] [published] [regions] [links] [rates] [density] [segmentation] [faces] [blocks] [filter]
# It takes the clips and networks of $PREFILLONLY_DATA (default: ../shared/data), carn_m_x2.onnx of tools/train/carn_onnx.py in build/models, and the
# programs in bin. An idle core takes about an hour and a half.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${PREFILLONLY_DATA:-../shared/data}
out=bench/results/video
export PATH=$PWD/bin:$PATH
highway=$data/video/dashcam_highway_960x540.mp4
short=$data/video/dashcam_highway_1280x720.mp4
indoor=$data/video/indoor_persons_768x432.mp4
vehicles=(--detector "$data/models/yolox_nano_416.onnx" --classes "car,bus,train,truck")

# evaluate NAME ARGUMENTS...: one comparison, and its table beside its results.
evaluate() {
  local to=$out/$1
  mkdir -p "$to"
  rm -f "$to"/*.svg
  prefillonly video eval --out "$to" "${@:2}" >"$to/table.txt"
}

# families SETTING...: DDS in five pairs of QPs for each of some settings.
families() {
  local setting pair list=""
  for setting; do
    for pair in 44,32 42,30 40,26 38,24 36,22; do
      list+=",dds:preset=tuned,low=${pair%,*},high=${pair#*,},$setting"
    done
  done
  echo "$list"
}

# The constants of dds:preset=tuned, one by one, on each half of a clip: what is chosen on the first half is judged on the second.
tuning() {
  local methods
  methods=mpeg$(families enlarge=0.3,low-scale=0.6 enlarge=0.3,low-scale=0.8 enlarge=0.3,low-scale=0.6,high-scale=1 enlarge=0.3,low-scale=1,high-scale=1 \
    enlarge=0.3,objectness=0.05 enlarge=0.3,objectness=0.2 enlarge=0.5 enlarge=0.3,hold=0 enlarge=0.3,sure=0.7 enlarge=0.3,blocks=false enlarge=0.3,outside=51 \
    enlarge=0.7 enlarge=1)
  evaluate tuning-first --clips "$highway" --seconds 4.4 "${vehicles[@]}" --found 0.3 --methods "$methods"
  evaluate tuning-second --clips "$highway" --from 4.4 "${vehicles[@]}" --found 0.3 --methods "$methods"
  rm "$out"/tuning-*/*.svg
}

# The clip of 38 frames, at its own rate.
short() {
  evaluate short --clips "$short" --rate 0 "${vehicles[@]}" --found 0.3 --methods "$(mpegs 0.6 0.8 1)dds,awstream"
  evaluate short-published --clips "$short" --rate 0 "${vehicles[@]}" --methods "$(mpegs 0.6 0.8 1)dds"
}

# All methods on one plot.
methods() {
  evaluate methods --clips "$highway" --from 4.4 "${vehicles[@]}" --found 0.3 --camera-detector "$data/models/fastestdet_352.onnx" \
    --resolver build/models/carn_m_x2.onnx --methods "mpeg,dds,awstream,eaar,vigil,reducto,glimpse,cloudseg:qp=24,frames=15,cloudseg:qp=32,frames=15"
}

# mpegs SCALE...: plain H.264 in five qualities for each scale.
mpegs() {
  local scale qp list=""
  for scale; do
    for qp in 28 32 36 40 44; do list+="mpeg:frames=15,qp=$qp,scale=$scale,"; done
  done
  echo "$list"
}

# Regions that are known beforehand: what the server's network finds in the frames as they are, on the camera, and one stream. Where the rest has the same
# QP, it is plain H.264 in which, as in all QP maps, I frames have that QP too.
known() {
  local pair qp list=""
  for qp in 28 32 36 40 44; do list+="vigil:frames=15,scale=0.8,qp=$qp,outside=$qp,"; done
  for pair in 44,32 42,30 40,26 38,24 36,22; do list+="vigil:frames=15,scale=0.8,outside=${pair%,*},qp=${pair#*,},"; done
  evaluate known-first --clips "$highway" --seconds 4.4 "${vehicles[@]}" --found 0.3 --camera-detector "$data/models/yolox_nano_416.onnx" \
    --camera-decoder yolox --methods "$(mpegs 0.6 0.8 1)${list%,}"
  evaluate known-second --clips "$highway" --from 4.4 "${vehicles[@]}" --found 0.3 --camera-detector "$data/models/yolox_nano_416.onnx" \
    --camera-decoder yolox --methods "$(mpegs 0.6 0.8 1)${list%,}"
  rm "$out"/known-*/*.svg
}

# The published threshold of what is found, 0.5.
published() {
  evaluate published --clips "$highway" --from 4.4 "${vehicles[@]}" --methods "$(mpegs 0.6 0.8 1)dds"
}

# The threshold of regions.
regions() {
  local objectness list=""
  for objectness in 0.05 0.1 0.2 0.3 0.5; do list+="dds:preset=tuned,objectness=$objectness,"; done
  evaluate regions --clips "$highway" --from 4.4 "${vehicles[@]}" --found 0.3 --methods "$(mpegs 0.6 0.8 1)${list%,}"
}

# Links whose rate changes each second.
links() {
  local all=() deviation seed
  for deviation in 0.1 0.2 0.3 0.4; do
    for seed in 1 2 3; do all+=(--link "200kbit~$deviation#$seed"); done
  done
  evaluate links --clips "$highway" "${vehicles[@]}" --found 0.3 "${all[@]}" \
    --methods "dds:preset=tuned,frames=5,adapt=true,dds:preset=tuned,frames=5,low=42,high=30,mpeg:frames=5,qp=36,scale=0.8,awstream:frames=5"
}

# One setting for links of several rates, and for one that breaks down and recovers.
rates() {
  evaluate rates --clips "$highway" "${vehicles[@]}" --found 0.3 --link 100kbit --link 200kbit --link 400kbit --link 0s:400kbit,3s:120kbit,6s:400kbit \
    --methods "dds:preset=tuned,frames=5,adapt=true,dds:preset=tuned,frames=5,low=42,high=30,mpeg:frames=5,qp=30,scale=0.8,mpeg:frames=5,qp=36,scale=0.8,awstream:frames=5"
}

# Parts of a clip with many things and with few.
density() {
  evaluate density --clips "$highway" --part 1.5 "${vehicles[@]}" --found 0.3 --methods "$(mpegs 0.6 0.8 1)dds"
}

# Roads, by margins of pixels.
segmentation() {
  local margin list=""
  for margin in 0.3 0.8 0.95 0.99; do
    list+=",dds:low=48,high=32,low-scale=1,high-scale=1,margin=$margin,dds:low=44,high=28,low-scale=1,high-scale=1,margin=$margin"
  done
  local road=(--clips "$highway" --seconds 1.5 --decoder segmentation --detector "$data/models/road_segmentation_adas_0001.onnx" --image '{order: BGR}')
  local plain
  plain=$(mpegs 1)
  evaluate segmentation-first "${road[@]}" --methods "mpeg:frames=15,qp=24,${plain%,}$list"
  evaluate segmentation-second "${road[@]}" --from 4.4 --methods "mpeg:frames=15,qp=24,${plain%,}$list"
  rm "$out"/segmentation-*/*.svg
}

faces() {
  evaluate faces --clips "$indoor" --rate 2 --decoder ssd --detector "$data/models/face_rfb_320.onnx" --found 0.3 --methods "$(mpegs 0.6 0.8 1)dds"
}

# OneAdapt's quantisers of macroblocks, on each half of a clip, from the coarsest on: DDS, AccMPEG and plain H.264 in segments of a second beside it.
blocks() {
  local share weight pair qp list="" half
  for share in 0.05 0.2 0.4; do list+="oneadapt:preset=repo,share=$share,start=cheapest,"; done
  for weight in 0.3 1 3; do list+="oneadapt:preset=tuned,lambda=$weight,start=cheapest,"; done
  for qp in 24 28 32 36 40; do list+="mpeg:frames=10,qp=$qp,"; done
  for qp in 28 32; do list+="mpeg:frames=10,scale=0.8,qp=$qp,"; done
  for pair in 40,30 36,26 32,22; do list+="accmpeg:frames=10,low=${pair%,*},qp=${pair#*,},"; done
  for pair in 42,30 40,26 36,22; do list+="dds:preset=tuned,frames=10,low=${pair%,*},high=${pair#*,},"; done
  for half in "first --seconds" "second --from"; do
    evaluate "blocks-${half% *}" --clips "$highway" "${half#* }" 4.4 "${vehicles[@]}" --found 0.3 --segment 10 --camera-detector "$data/models/fastestdet_352.onnx" \
      --against mpeg,dds,accmpeg --methods "${list%,}"
  done
}

# OneAdapt's filter of frames, in two parts of a clip, against Reducto.
filter() {
  local threshold weight preset part list="mpeg:frames=10,qp=24,reducto:frames=10,qp=24"
  for threshold in 0.01 0.02 0.05 0.1 0.2; do list+=",reducto:frames=10,qp=24,threshold=$threshold"; done
  for threshold in 0.02 0.05 0.1 0.2; do list+=",reducto:frames=10,qp=24,feature=pixel,threshold=$threshold"; done
  for weight in 0.1 0.3 1 3; do
    for preset in paper repo tuned; do list+=",oneadapt:knobs=filter,preset=$preset,lambda=$weight"; done
  done
  for part in "first 10" "second 40"; do
    evaluate "filter-${part% *}" --clips "$indoor" --from "${part#* }" --seconds 15 --detector "$data/models/yolox_nano_416.onnx" --classes person --found 0.3 --segment 10 \
      --largest 1 --resource frames --against reducto --methods "$list"
  done
}

if [ $# = 0 ]; then
  set -- tuning short known methods published regions links rates density segmentation faces blocks filter
fi
for part; do "$part"; done
