package local

import (
	"math/rand/v2"
	"slices"

	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/accuracy"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// agreement is how what is found is compared with what the original finds.
var agreement = accuracy.Rule{Truth: vision.DefaultScore, Found: vision.DefaultScore, IoU: 0.5}

// Scores are told with an interval that frames drawn anew would have them in: blocks of frames, as those next to each other are alike.
const (
	blockFrames = 10
	draws       = 1000
	interval    = 0.9
)

// scoreFindings is the F1 of frames, one by one; of those with maps of classes, the mean IoU.
func scoreFindings(truth, found []videoext.Findings, seed uint64) merging.Score {
	if len(truth) > 0 && truth[0].Mask != nil {
		return scoreMasks(truth, found, seed)
	}
	counts := make([]accuracy.Counts, len(truth))
	s := merging.Score{Frames: len(truth)}
	for i := range truth {
		counts[i] = agreement.Count(truth[i].Detections, found[i].Detections)
		s.Objects += objects(truth[i])
	}
	blocks := slices.Collect(slices.Chunk(counts, blockFrames))
	s.Value = add(counts...).F1()
	s.Low, s.High = resample(len(blocks), func(drawn []int) float64 {
		var all accuracy.Counts
		for _, b := range drawn {
			all = add(all, add(blocks[b]...))
		}
		return all.F1()
	}, seed)
	return s
}

// objects is how many the truth of a frame has.
func objects(f videoext.Findings) (n int) {
	for _, d := range f.Detections {
		if d.Score >= agreement.Truth {
			n++
		}
	}
	return n
}

func add(counts ...accuracy.Counts) (all accuracy.Counts) {
	for _, c := range counts {
		all.Right, all.Wrong, all.Missed = all.Right+c.Right, all.Wrong+c.Wrong, all.Missed+c.Missed
	}
	return all
}

// resample is the interval of what a figure is for as many of n blocks, drawn with replacement (Efron, "Bootstrap methods", 1979).
func resample(n int, figure func(drawn []int) float64, seed uint64) (low, high float64) {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	figures, drawn := make([]float64, draws), make([]int, n)
	for i := range figures {
		for k := range drawn {
			drawn[k] = random.IntN(n)
		}
		figures[i] = figure(drawn)
	}
	slices.Sort(figures)
	beside := int((1 - interval) / 2 * draws)
	return figures[beside], figures[draws-1-beside]
}
