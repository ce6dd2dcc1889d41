package camera

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// reachable is how many bytes of frames can be reached from a stream, but for the last one of the segment before.
func (s *stream) reachable() (bytes int) {
	all := map[*media.Frame]bool{}
	note := func(frames ...*media.Frame) {
		for _, f := range frames {
			if f != nil && !all[f] {
				all[f] = true
				bytes += frameBytes(f)
			}
		}
	}
	for _, frames := range s.held {
		note(frames...)
	}
	note(s.partly...)
	for _, t := range append(slices.Clone(s.todo), s.doing) {
		switch t := t.(type) {
		case *encodeTask:
			note(t.frames...)
		case *measureTask:
			note(t.frames...)
			note(t.before, t.since)
		case *trackTask:
			note(t.to...)
			note(t.from)
		case *detectTask:
			note(t.frames...)
		case *tryTask:
			note(t.frames...)
		}
	}
	return bytes
}

// testMessages is how many bytes of messages are kept.
const testMessages = 1 << 14

// done makes what comes of a task, without doing it.
func done(t task, r *rand.Rand) outcome {
	switch t := t.(type) {
	case *encodeTask:
		if r.IntN(8) == 0 {
			return outcome{segment: t.Segment, stream: t.Stream} // it failed
		}
		data := make([]byte, 1+r.IntN(testMessages/8))
		return outcome{segment: t.Segment, stream: t.Stream, data: data, event: method.Encoded{Segment: t.Segment, Stream: t.Stream, NAL: len(data), Container: len(data)}}
	case *measureTask:
		values := make([]float64, len(t.frames))
		for i := range values {
			values[i] = r.Float64() / 10
		}
		return outcome{event: method.Measured{Segment: t.Segment, Values: values}}
	case *trackTask:
		return outcome{event: method.Tracked{Segment: t.Segment, Frames: t.Track.Frames, Detections: make([][]videoext.Detection, len(t.to))}}
	case *detectTask:
		found := make([]videoext.Findings, len(t.frames))
		if r.IntN(2) == 0 {
			found[0].Detections = []videoext.Detection{{Region: videoext.Region{X1: 0.5, Y1: 0.5}, Score: 0.9}}
		}
		return outcome{event: method.Found{Segment: t.Segment, Frames: t.Detect.Frames, Findings: found}}
	}
	return outcome{event: method.Tried{Segment: t.(*tryTask).Segment}}
}

// TestStreamMemory: whatever a server answers, twice or never, by whatever method, and however often sessions break: frames and messages
// are within their bounds, and so is how many segments are under way.
func TestStreamMemory(t *testing.T) {
	const frames = 4
	for _, spec := range []string{"mpeg:frames=4", "oneadapt:frames=4", "dds:frames=4", "eaar:frames=4", "glimpse:frames=4,threshold=0.03", "reducto:frames=4,threshold=0.1", "vigil:frames=4"} {
		t.Run(spec, func(t *testing.T) {
			for seed := range uint64(8) {
				r := rand.New(rand.NewPCG(seed, 2))
				memory := (2 + r.IntN(6)) * frames * frameBytes(media.NewFrame(32, 32))
				s := newStream(10, memory)
				s.detects, s.ledger.maxBytes = true, testMessages
				told := method.Segment(0) // what a server may have
				welcome := &session.Welcome{Method: spec}
				now := time.Duration(0)
				if err := s.handleWelcome(now, welcome); err != nil {
					t.Fatal(err)
				}
				for range 1000 {
					now += time.Duration(r.IntN(100)) * time.Millisecond
					switch r.IntN(8) {
					case 0, 1, 2:
						s.addFrame(now, media.NewFrame(32, 32))
					case 3:
						if s.doing != nil {
							_ = s.handleOutcome(now, done(s.doing, r)) // it may be told of
						} else if len(s.todo) > 0 {
							s.doing, s.todo = s.todo[0], s.todo[1:]
						}
					case 4:
						s.link.observeDelivery(now, s.link.delivered+r.IntN(1<<20), r.IntN(2)<<20)
						if s.ledger.nextMessage() != nil {
							told = s.firstPending() + method.Segment(r.IntN(int(s.next-s.firstPending())))
						}
					case 5:
						segment := max(0, told-method.Segment(r.IntN(3)))
						var content method.Content = method.Wanted{Regions: [][]videoext.Region{{{X1: 0.25, Y1: 0.25}}, {}, {}, {}}[:r.IntN(frames+1)]}
						if r.IntN(2) == 0 {
							content = method.Seen{Frames: []int{0}, Detections: [][]videoext.Detection{{{Region: videoext.Region{X1: 0.5, Y1: 0.5}, Score: 0.9}}}}
						}
						_, _ = s.handleMessage(now, &session.Answered{Answer: method.Answer{Segment: segment, Content: content}}) // it may make no sense
					case 6:
						if r.IntN(3) == 0 {
							_, _ = s.handleMessage(now, &session.Done{Segment: max(0, told-method.Segment(r.IntN(3)))})
						}
						s.wakeMethod(now)
					case 7:
						if r.IntN(20) == 0 {
							welcome.Next = s.firstPending() + method.Segment(r.IntN(int(s.next-s.firstPending())+1))
							if err := s.handleWelcome(now, welcome); err != nil {
								t.Fatal(err)
							}
						}
					}
					if s.err != nil {
						t.Fatal(s.err)
					}
					if kept := s.reachable(); kept > memory {
						t.Fatalf("seed %d: frames of %d bytes are kept, %d are the most; %d segments are held, and %d tasks wait", seed, kept, memory, len(s.held), len(s.todo))
					}
					if s.ledger.bytes > testMessages || len(s.ledger.entries) > maxUnderWay {
						t.Fatalf("seed %d: messages of %d bytes, %d segments", seed, s.ledger.bytes, len(s.ledger.entries))
					}
				}
				if s.totals.Done == 0 || s.totals.Dropped == 0 {
					t.Errorf("seed %d: %d segments were done, and %d frames dropped", seed, s.totals.Done, s.totals.Dropped)
				}
			}
		})
	}
}
