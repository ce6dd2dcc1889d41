// Package media is the vocabulary of video: frames, maps of quantisers, encoded segments and how they are to be
// encoded; pure Go, without a codec.
//
// A Frame is a picture in planes of 8 bit YUV 4:2:0. Frames come from a source ([ffmpeg.Open] reads files and cameras)
// or of a decoded Segment ([ffmpeg.Decode]), and are scaled by an [ffmpeg.Scaler]. A Segment is some frames encoded as
// H.264 that need nothing before them to be decoded; Settings say how, and a QPMap gives every macroblock a quantiser
// of its own. What encodes is a program of its own, cmd/camera, since its encoder is licensed under the GPL: package
// [pipe] starts it and hands it frames, or names of files.
//
// [ffmpeg.Open]: https://pkg.go.dev/github.com/prefillonly/prefillonly/videoext/media/ffmpeg#Open
// [ffmpeg.Decode]: https://pkg.go.dev/github.com/prefillonly/prefillonly/videoext/media/ffmpeg#Decode
// [ffmpeg.Scaler]: https://pkg.go.dev/github.com/prefillonly/prefillonly/videoext/media/ffmpeg#Scaler
// [pipe]: https://pkg.go.dev/github.com/prefillonly/prefillonly/videoext/media/pipe
package media

// MaxPixels is how many pixels a frame may have: those of 8K video.
const MaxPixels = 7680 * 4320

// MaxFrames is how many frames a segment may have: a minute at 60 in a second.
const MaxFrames = 3600
