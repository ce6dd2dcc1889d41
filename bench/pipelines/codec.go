package pipelines

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/casva"
	"github.com/prefillonly/prefillonly/videoext/scene"
)

// openCodec is pipeline b of the dissertation's table 4.2: quantiser, resolution and B-frames of a dashcam's video.
func openCodec(s Source) (*Study, error) {
	study, err := openClip(s, codecSettings(), vehicleVideo(0, 0))
	if err != nil {
		return nil, err
	}
	return codecStudy(study)
}

func codecSettings() methods.OneAdaptSettings {
	settings := methods.UsualOneAdapt()
	settings.Knobs = "codec"
	return settings
}

// Of the drawn streets: each is another camera's.
const (
	streetWidth, streetHeight = 640, 360
	streetSeconds             = 10
	streetRate                = 5 // frames a second, for the time that it takes
	streetsLearned            = 4 // of seed 0: what a policy is trained on, and constants were chosen on
	streetsJudged             = 3
)

// openStreets is pipeline b on drawn streets, which have no licence and of which there are as many as one likes.
func openStreets(s Source) (*Study, error) {
	streets := streetsJudged
	if s.Seed == 0 {
		streets = streetsLearned
	}
	clip := &emulate.Clip{Name: "streets", Rate: streetRate}
	for n := range streets {
		street := scene.New(streetWidth, streetHeight, 1000*(2+s.Seed)+uint64(n)) // far from those that the network was trained on
		for i := range streetSeconds * streetRate {
			frame, _ := street.Frame(time.Duration(i) * time.Second / streetRate)
			clip.Frames = append(clip.Frames, frame)
		}
	}
	dir, err := os.MkdirTemp("", "streets-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	network := filepath.Join(dir, "network.onnx")
	if err := os.WriteFile(network, scene.Detector, 0o600); err != nil {
		return nil, err
	}
	tools, done, err := s.Drawn(clip, network, "fastestdet")
	if err != nil {
		return nil, err
	}
	settings := codecSettings()
	settings.Frames = streetRate
	study, err := studyClip("codec-streets", settings, clip, tools, done)
	if err != nil {
		return nil, err
	}
	return codecStudy(study)
}

// codecLadders are what CASVA's policy chooses among: five quantisers and four scales. The bias to B-frames, which the paper's does not know, is x264's own.
var codecLadders = [][]int{{1, 3, 5, 7, 10}, {1, 3, 4, 6}, {2}}

// Of ways that profile an encoder's configurations.
const (
	codecEvery = 4 // intervals of the dearest settings, of which each so-manieth is profiled at the most
	// codecSpare is what the paper lets servers do beside the stream itself: look at another half second each second.
	codecSpare = 0.5
)

// codecStudy has the other ways to set an encoder's knobs, each for links of some shares of what the dearest settings take.
func codecStudy(study *Study) (*Study, error) {
	table, err := casva.StreetTable()
	if err != nil {
		study.Close()
		return nil, err
	}
	study.Ladders, study.Known = codecLadders, table.Profile()
	knobs, known := study.Knobs(), study.Known
	for _, share := range []float64{0.1, 0.2, 0.4} {
		goal := pipeline.Goal{Budget: share}
		for _, spare := range []float64{codecSpare, 0} {
			server := ""
			if spare == 0 {
				server = ",looks=any"
			}
			study.Baselines = append(study.Baselines, Setting{"chameleon", fmt.Sprintf("link=%g%s", share, server), func() pipeline.Way {
				search := &pipeline.Independent{Knobs: knobs, Stride: []int{2, 2, 2}, Top: 5, Again: 4, Goal: goal}
				return &pipeline.Profiled{Every: codecEvery, Search: search, Goal: goal, Spare: spare, Known: known}
			}}, Setting{"awstream", fmt.Sprintf("link=%g%s", share, server), func() pipeline.Way {
				return &pipeline.Profiled{Every: codecEvery, Search: awstreamGrid(knobs), Goal: goal, Spare: spare, Known: known}
			}})
		}
		study.Baselines = append(study.Baselines, Setting{"casva", fmt.Sprintf("link=%g", share), func() pipeline.Way {
			return &casva.Way{Share: share}
		}})
	}
	return study, nil
}

// awstreamGrid are the configurations that AWStream profiles while it streams: of three knobs, each fourth, third and fourth setting.
func awstreamGrid(knobs []oneadapt.Knob) pipeline.All { return pipeline.Grid(knobs, 4, 3, 4) }
