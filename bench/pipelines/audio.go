package pipelines

import (
	"fmt"
	"path/filepath"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/audio"
)

const (
	audioSeconds = 900 // of the stream
	// audioRate and audioGain are, of twelve pairs (rates of 0.5 to 1.5, elastic ones among them, and gains of 1 to 10), those of the greatest accuracy less trade x cost, in the mean over
	// trades and 300 s of each of seeds 7, 8 and 9, and of the fewest intervals to converge. A rate of 1.5 is the paper's 0.5 with three times the weight and the gain.
	audioRate = 1.5
	audioGain = 3
)

// openAudio is pipeline (h): spoken digits by the sampling rate, on recordings that the network was not trained on.
func openAudio(s Source) (*Study, error) {
	recordings, err := audio.Recordings(filepath.Join(s.Data, "audio", "fsdd"), 0)
	if err != nil {
		return nil, err
	}
	p, err := audio.Open(audio.Draw(recordings, audioSeconds, s.Seed), s.Backend)
	if err != nil {
		return nil, err
	}
	configs := pipeline.Grid(p.Knobs(), 1)
	baselines := Profiled("chameleon", configs, []Period{{12, 1}, {60, 5}, {120, 10}}, []float64{0.02, 0.05, 0.1, 0.4})
	for _, low := range []int{0, 2} {
		for high := low + 1; high < len(audio.Rates); high++ {
			baselines = append(baselines, Setting{"voice", fmt.Sprintf("low=%d,high=%d", audio.Rates[low], audio.Rates[high]), func() pipeline.Way {
				return &audio.Voice{Pipeline: p, Low: low, High: high}
			}})
		}
	}
	return &Study{
		Pipeline: p, Baselines: baselines, Close: p.Close,
		Trades: []float64{0.05, 0.1, 0.2, 0.4, 0.8},
		Ahead:  true, // the sensor has each second before it sends it
		Rule: func(trade float64, from oneadapt.Config) (oneadapt.Rule, error) {
			return oneadapt.NewAscent(oneadapt.Ascent{Rate: audioRate, Weight: trade, Gain: audioGain}, p.Knobs(), from)
		},
	}, nil
}
