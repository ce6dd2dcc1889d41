package pipelines

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/lidar"
)

// Of the LiDAR's study.
const (
	drives       = 3
	driveSeconds = 10
	repeats      = 3 // of all drives, with points of their own; the paper takes the mean of five
	// lidarGain is how many cars a change of one is worth: of 0.05, 0.1 and 0.2 the one of the greatest accuracy less trade x cost, in the mean over trades, on the
	// streets of seed 2. The slope of the utility was chosen there, too.
	lidarGain = 0.1
)

// openLiDAR is pipeline d of the dissertation's table 4.2, on simulated sweeps, with gradients of some of the ten sweeps of each interval.
func openLiDAR(gradients int) func(Source) (*Study, error) {
	return func(s Source) (*Study, error) { return newLiDAR(s, gradients) }
}

func newLiDAR(s Source, gradients int) (*Study, error) {
	dir, err := os.MkdirTemp("", "lidar-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "network.onnx")
	if err = os.WriteFile(file, lidar.Network, 0o600); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	network, err := direct.Open(file, s.Backend, dnn.Options{})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	o := lidar.Options{Seconds: driveSeconds, Repeats: repeats, Gradients: gradients}
	for n := range uint64(drives) {
		o.Streets = append(o.Streets, 1000*s.Seed+n)
	}
	p := lidar.New(network, o)
	return &Study{
		Pipeline:  p,
		Baselines: regionSettings(p.Knobs()),
		Trades:    []float64{0.1, 0.2, 0.4, 0.8, 1.6},
		Rule: func(trade float64, from oneadapt.Config) (oneadapt.Rule, error) {
			return oneadapt.NewAscent(oneadapt.Ascent{Rate: 0.5, Weight: trade, Gain: lidarGain, Separable: true, Elastic: true}, p.Knobs(), from)
		},
		Ahead:  true, // the sensor has all sweeps of an interval before it sends them
		Sample: 8,
		Close: func() {
			network.Close()
			os.RemoveAll(dir)
		},
	}, nil
}

// regionSettings send all points of blocks with cars, or most of them, and few of others.
func regionSettings(knobs []oneadapt.Knob) (all []Setting) {
	most := len(knobs[0].Places) - 1
	for _, inside := range []int{most, most - 1, most - 2} {
		for outside := range inside {
			all = append(all, Setting{"regions", fmt.Sprintf("inside=%d,outside=%d", inside, outside), func() pipeline.Way {
				return &pipeline.Heuristic{Next: func(last pipeline.Result) oneadapt.Config { return lidar.Regions(last, inside, outside) }}
			}})
		}
	}
	return all
}
