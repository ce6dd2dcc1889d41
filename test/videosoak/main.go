// Command videosoak streams drawn video in several ways for a while, breaks segments and ends cameras meanwhile, and tells whether each frame got its
// own results, once, and whether memory stayed flat.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/prefillonly/prefillonly/internal/procfs"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/methods"
)

func main() {
	duration := flag.Duration("duration", time.Hour, "how long")
	camera := flag.String("camera", "bin/camera", "the program that encodes")
	seed := flag.Uint64("seed", 1, "of the faults")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, err := soakAllMethods(ctx, *camera, *duration, *seed)
	if s != nil {
		fmt.Println(s)
		err = errors.Join(err, s.verdict())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "videosoak:", err)
		os.Exit(1)
	}
}

// ways are the methods that are streamed with, in turn.
var ways = []string{
	"mpeg:qp=30,scale=0.8", "dds:preset=paper,frames=10", "dds:preset=tuned,frames=10,hold=3,outside=48", "eaar", "reducto:threshold=0.05,qp=28",
}

const (
	faultRate  = 0.05 // of segments that break on their way
	vanishRate = 0.02 // of segments after which the camera ends
)

// soakAllMethods streams with all ways side by side until the time is over.
func soakAllMethods(ctx context.Context, program string, duration time.Duration, seed uint64) (*seen, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	camera, err := pipe.Start(ctx, program)
	if err != nil {
		return nil, err
	}
	defer func() { _ = camera.Close() }() // of the last one nothing is expected
	var scaler ffmpeg.Scaler
	defer scaler.Close()
	s := &seen{}
	var streams []*stream
	for _, way := range ways {
		m, err := methods.New(way, methods.Learned{})
		if err != nil {
			return nil, err
		}
		streams = append(streams, &stream{method: m, encoder: camera, scaler: &scaler, random: random, faults: faultRate, open: map[method.Segment]*segment{}, seen: s})
		streams[len(streams)-1].begin()
	}
	begun := time.Now()
	for time.Since(begun) < duration && ctx.Err() == nil {
		one := streams[random.IntN(len(streams))]
		if err := one.captureSegment(ctx); err != nil {
			return s, err
		}
		if random.Float64() < vanishRate {
			_ = camera.Close() // it is being ended
			if camera, err = pipe.Start(ctx, program); err != nil {
				return s, err
			}
			one.replaceCamera()
			for _, other := range streams {
				other.encoder = camera
			}
		}
		s.sampleMemory(time.Since(begun), duration)
	}
	for _, one := range streams {
		if err := one.finishSegments(ctx); err != nil {
			return s, err
		}
	}
	return s, ctx.Err()
}

// seen is what a soak saw.
type seen struct {
	captured, final, own int // frames
	lost, twice, wrong   int // frames, results, frames: there are to be none
	corrupt, vanished    int
	notes                []string
	memory               []int64 // of this process and the camera's, evenly in time
}

const (
	samples  = 200
	maxNotes = 10
)

func (s *seen) addNote(format string, args ...any) {
	if len(s.notes) < maxNotes {
		s.notes = append(s.notes, fmt.Sprintf(format, args...))
	}
}

func (s *seen) sampleMemory(at, of time.Duration) {
	if int(at*samples/of) < len(s.memory) {
		return
	}
	total, _ := procfs.Memory(os.Getpid()) // it has not ended
	for _, p := range procfs.Children(os.Getpid()) {
		n, _ := procfs.Memory(p.PID) // 0 of one that has just ended
		total += n
	}
	s.memory = append(s.memory, total)
}

// memoryGrowth is the median of memory when all was warm, and in the end.
func (s *seen) memoryGrowth() (warm, last int64) {
	median := func(part []int64) int64 {
		part = slices.Sorted(slices.Values(part))
		return part[len(part)/2]
	}
	n := len(s.memory)
	if n < 10 {
		return 0, 0
	}
	return median(s.memory[n*3/10 : n/2]), median(s.memory[n*8/10:])
}

// mostGrowth is what memory may grow by, or a seventh of it if that is more.
const mostGrowth = 16 << 20

func (s *seen) verdict() error {
	warm, last := s.memoryGrowth()
	switch {
	case s.lost+s.twice+s.wrong > 0:
		return fmt.Errorf("%d frames without results, %d results too many, %d frames with results of another: %q", s.lost, s.twice, s.wrong, s.notes)
	case s.final != s.captured:
		return fmt.Errorf("%d frames were captured, and %d have final results", s.captured, s.final)
	case s.own*10 < s.captured*3:
		return fmt.Errorf("only %d of %d frames have results of their own", s.own, s.captured)
	case last > warm+max(mostGrowth, warm/7):
		return fmt.Errorf("memory has grown from %d to %d MiB", warm>>20, last>>20)
	}
	return nil
}

func (s *seen) String() string {
	warm, last := s.memoryGrowth()
	return fmt.Sprintf("%d frames captured, %d with final results (%d of their own), %d lost, %d results twice, %d frames with results of another\n"+
		"%d segments broken, %d cameras ended; memory %d MiB when warm, %d MiB in the end",
		s.captured, s.final, s.own, s.lost, s.twice, s.wrong, s.corrupt, s.vanished, warm>>20, last>>20)
}
