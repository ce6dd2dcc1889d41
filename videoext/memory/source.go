package memory

import (
	"fmt"

	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// mostWaiting is how many bytes the frames of a source may have that wait for the network, if there are more than leastWaiting.
const (
	mostWaiting  = 64 << 20
	leastWaiting = 2
)

// MayWait says that so many frames of a size may wait.
func MayWait(frames int, bytes int64) bool {
	return frames <= leastWaiting || int64(frames)*bytes <= mostWaiting
}

// OfSource is what reading a source takes, its decoder and the frames that wait, are looked at and are shown; and what that is, in words.
func OfSource(info *ffmpeg.Info) (n int64, what string) {
	frame, waiting := int64(info.Width)*int64(info.Height)*3/2, leastWaiting
	for waiting < streams.DefaultMost && MayWait(waiting+1, frame) {
		waiting++
	}
	return info.Memory + int64(waiting+3)*frame, fmt.Sprintf("video of %d x %d pixels, with what its decoder (%s) keeps and frames that wait,", info.Width, info.Height, info.Codec)
}
