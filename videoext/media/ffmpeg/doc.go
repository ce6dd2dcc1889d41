// Package ffmpeg reads video by FFmpeg's libraries: files and RTSP cameras, segments in memory; it also scales frames
// and puts segments into MP4, and reads the sound of files in memory. It encodes nothing.
//
// The libraries are opened at run time, when they are first needed, so that a program that links this package starts
// without them; Open and the others then say what is missing. They must be of the major version that the program is
// compiled with (Debian 12: FFmpeg 5.1, libavformat59). Built without cgo, or with the tag noffmpeg where the headers are
// not there, every call fails and says so.
//
// Files come from strangers: formats are those that hold video, none that name other files or hosts; frames have at most
// media.MaxPixels, an allocation of the libraries at most 256 MiB, a camera 16 tracks and a file 64; decoding holds no more than was said when the
// source was opened (Info.Memory). Decoding is by one thread if not told otherwise.
//
// A camera is opened by one connection to an address that was looked up here, and asked for by that. Redirections are followed here, three
// at most and to the same host alone.
package ffmpeg

import (
	"context"
	"net/netip"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// Options say how a source is read. The zero value reads every frame, by one thread.
type Options struct {
	Rate    float64       // frames in a second at most: between samples, frames are left out; 0: all
	Threads int           // to decode with; 0: 1
	Timeout time.Duration // for each step of a camera, and each packet before its first key frame, by which it must have come; 0: DefaultTimeout
	Clock   *media.Clock  // of the frames, which goes on from a Clip to the next; nil: one that begins with the source
	Keyless func()        // is called whenever a packet of a camera has come, and none of them was of a key frame yet; may be nil

	// Stage runs the decoding of each packet, which waits for nothing, when a processor is free; its error ends the reading. Nil: at once.
	Stage func(ctx context.Context, decode func() error) error

	// Resolve returns the addresses that a camera's host may be connected to, in the order in which they are tried; nil: all that it has.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	// Admit is asked as soon as it is known what decoding takes, and again when more is known: before anything of a camera is decoded whose description
	// has its parameter sets. An error leaves the source. nil: all are admitted.
	Admit func(Info) error
}

func (o *Options) admit(info Info) error {
	if o.Admit == nil {
		return nil
	}
	return o.Admit(info)
}

// DefaultTimeout is how long a camera may take for a step.
const DefaultTimeout = 10 * time.Second

// maxLeap is how much more a camera's times, or those of joined files, may grow from a frame to the next than time has passed: by as much FFmpeg
// takes times of MPEG-TS for broken.
const maxLeap = 10 * time.Second

// Info describes a source as far as it says it.
type Info struct {
	Width, Height int
	Rate          float64       // frames in a second, on average; 0: unknown
	Duration      time.Duration // negative: unknown, as a camera's
	Codec         string        // as FFmpeg names its decoder
	Memory        int64         // bytes that decoding may take, by the size, the references and the tracks; a source that asks for more ends in an error
}

// sampler chooses frames so that there are at most so many in a second.
type sampler struct {
	rate float64
	next int64 // the number of the sample that comes next
}

// sampleSlack absorbs the rounding of times.
const sampleSlack = time.Millisecond

// takes reports whether a frame of this time is the next sample: the first at or after each of its times.
func (s *sampler) takes(at time.Duration) bool {
	if s.rate == 0 {
		return true
	}
	current := int64((at + sampleSlack).Seconds() * s.rate)
	if current < s.next {
		return false
	}
	s.next = current + 1
	return true
}

// seek begins anew with the samples from a time on.
func (s *sampler) seek(to time.Duration) { s.next = int64((to + sampleSlack).Seconds() * s.rate) }

// annexB is how a segment is cut for MP4: the parameter sets, and the units without them.
func annexB(s *media.Segment) (headers []byte, units [][]byte) {
	for _, u := range s.Units {
		var kept []byte
		for _, nal := range media.NALUnits(u.Data) {
			switch nal.Type {
			case media.NALSequence, media.NALPicture:
				if len(units) == 0 {
					headers = append(headers, nal.Data...)
				}
			default:
				kept = append(kept, nal.Data...)
			}
		}
		units = append(units, kept)
	}
	return headers, units
}

// delay is by how many frames the order of decoding is ahead of that of time.
func delay(s *media.Segment) (d int) {
	for i, u := range s.Units {
		d = max(d, i-u.Order)
	}
	return d
}
