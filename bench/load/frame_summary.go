package load

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// maxFrameElements is how many elements a frame may have.
const maxFrameElements = 64 << 20 / 4

// randomFrame is a frame of random values of 0 to 255; dimensions that may be any are 1.
func randomFrame(shape []int) ([]byte, error) {
	n := 1
	for i, d := range shape {
		if d < 0 && i > 0 {
			return nil, fmt.Errorf("shape %v leaves the size of a frame open: give a picture", shape)
		}
		shape[i] = max(d, 1)
		if n *= shape[i]; n > maxFrameElements {
			return nil, fmt.Errorf("frame of shape %v is too large", shape)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 0, 4*n)
	for range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(255*random.Float32()))
	}
	return data, nil
}

// FrameSummary is what a run's records say together.
type FrameSummary struct {
	Frames  int
	Counts  [Failed + 1]int // by outcome
	Latency []time.Duration // of answered frames, sorted
	Worst   string          // an error of a frame that failed, or was refused
}

// SummarizeFrames reads a run's records.
func SummarizeFrames(records []FrameRecord) FrameSummary {
	s := FrameSummary{Frames: len(records)}
	for _, r := range records {
		s.Counts[r.Outcome]++
		if r.Err == "" {
			s.Latency = append(s.Latency, r.Latency)
		} else if r.Outcome >= Refused {
			s.Worst = r.Err
		}
	}
	slices.Sort(s.Latency)
	return s
}
