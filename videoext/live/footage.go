package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

type track struct {
	segment method.Segment
	stream  method.Stream
}

// footage is frames of a segment, which are decoded when they are first needed.
type footage struct {
	numbers  []int
	load     func(ctx context.Context) ([]*media.Frame, error)
	letGo    func() // gives back what they take; nil: it is a source's
	once     sync.Once
	pictures []*media.Frame
	err      error
}

func (f *footage) loadFrames(ctx context.Context) ([]*media.Frame, error) {
	f.once.Do(func() {
		if f.pictures, f.err = f.load(ctx); f.err == nil && len(f.pictures) != len(f.numbers) {
			f.err = fmt.Errorf("%d frames came out of %d", len(f.pictures), len(f.numbers))
		}
	})
	return f.pictures, f.err
}

// releaseFrames says that the frames are needed no more.
func (f *footage) releaseFrames() {
	if f != nil && f.letGo != nil {
		f.letGo()
	}
}

// selectFrames are frames by their numbers.
func (f *footage) selectFrames(ctx context.Context, numbers []int) ([]*media.Frame, error) {
	if f == nil {
		return nil, errors.New("its frames are gone")
	}
	all, err := f.loadFrames(ctx)
	if err != nil {
		return nil, err
	}
	frames := make([]*media.Frame, len(numbers))
	for i, n := range numbers {
		at := slices.Index(f.numbers, n)
		if at < 0 {
			return nil, fmt.Errorf("frame %d was not sent", n)
		}
		frames[i] = all[at]
	}
	return frames, nil
}
