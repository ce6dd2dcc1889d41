#!/bin/sh
# Draws the clips of the tests in this directory, and two tones beside each other, and writes what the ffmpeg program decodes of them into golden.txt: file,
# size, frames, and the MD5 of all frames as raw YUV 4:2:0.
set -eu
cd "$(dirname "$0")"
draw() { # NAME ARGS...
    name=$1; shift
    ffmpeg -v error -y -f lavfi -i testsrc2=size=96x64:rate=12:duration=2 -fflags +bitexact -flags:v +bitexact -threads 1 -pix_fmt yuv420p "$@" "$name"
}
draw drawn.mp4 -c:v libx264 -g 12
draw drawn.mkv -c:v libx264 -g 12 -bf 0
ffmpeg -v error -y -i drawn.mkv -c copy -f h264 ../rtsptest/plain.h264
draw drawn.ts -c:v libx264 -g 12
draw drawn.h264 -c:v libx264 -g 12
draw drawn.avi -c:v mpeg4 -g 12
draw odd.mkv -c:v libvpx-vp9 -vf scale=95:63
tones() { # NAME ARGS...
    name=$1; shift
    ffmpeg -v error -y -f lavfi -i "aevalsrc=round(8000*sin(2*PI*440*t))/32768|round(4000*sin(2*PI*700*t))/32768:sample_rate=16000:duration=0.25" \
        -map_metadata -1 -fflags +bitexact -flags:a +bitexact "$@" "$name"
}
tones tones.flac -sample_fmt s16
tones tones.mp3 -b:a 64k
tones tones.ogg -c:a libvorbis
tones tones.m4a -c:a aac -b:a 64k
tones tones.webm -c:a libopus -b:a 64k
for f in drawn.* odd.*; do
    size=$(ffprobe -v error -select_streams v -show_entries stream=width,height -of csv=s=x:p=0 "$f" | head -n 1)
    ffmpeg -v error -i "$f" -fps_mode passthrough -pix_fmt yuv420p -f rawvideo raw.yuv -y
    frames=$(ffprobe -v error -select_streams v -count_frames -show_entries stream=nb_read_frames -of csv=p=0 "$f" | head -n 1)
    echo "$f $size $frames $(md5sum <raw.yuv | cut -d' ' -f1)"
done >golden.txt
rm raw.yuv
