// Package pipelines compares ways to set the knobs of streaming pipelines: accuracy over resource, how fast settings are found, and how far gradients tell accuracy
// (OneAdapt, SoCC 2023; section 4.2 of the dissertation).
package pipelines

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Source is what pipelines are made of.
type Source struct {
	Data    string // directory with recordings and networks that are not the program's own
	Seed    uint64 // of what is drawn
	Backend kernels.Backend
	// Video opens a clip of Data, and what encodes it and finds things in it.
	Video func(Video) (*emulate.Clip, emulate.Tools, func(), error)
	// Drawn has what encodes a clip that was drawn, and finds things in it by a network in a file.
	Drawn func(clip *emulate.Clip, network, decoder string) (emulate.Tools, func(), error)
}

// Video says what is streamed, and to which network.
type Video struct {
	Clip             string // a file of Data's directory video
	Network, Decoder string // a file of Data's directory models, and what its outputs mean
	Image            string // how frames become its input, as `image` of a model's entry; empty: as the decoder's networks are published
	Camera           string // a FastestDet on the camera, for ways that have one; empty: there is none
	Classes          []string
	Found            float64 // the least score of what counts; 0: as usual
	From, Seconds    float64 // of the clip; 0 seconds: all from there on
}

// Setting is a way in one setting.
type Setting struct {
	Way, Setting string
	New          func() pipeline.Way
}

// Study is a pipeline and what is run on it.
type Study struct {
	pipeline.Pipeline
	Baselines []Setting // beside fixed configurations, which all pipelines are run at
	// Rule begins at a configuration, with one of Trades: how much accuracy the resource is worth, or what a rule has in place of that.
	Rule   func(trade float64, from oneadapt.Config) (oneadapt.Rule, error)
	Trades []float64 // the middle one is that whose convergence is told
	Ahead  bool      // as of oneadapt.Options
	Sees   bool      // the network sees something always, so that the dearest settings are not tried for what it might see (oneadapt.Options.Blind)
	// Move is as of pipeline.OneAdapt.
	Move func(m *oneadapt.Map, of, in int) *oneadapt.Map
	// Variants are further ways to come by gradients, in each of the trades.
	Variants []Variant
	Warm     int // intervals at the beginning in which all ways run, and that do not count
	Sample   int // configurations of which the cosine of gradients is taken, each of which takes a look for each knob; 0: 200
	// Known is what was found out beforehand, on other recordings: OneAdapt begins with the best of it as well, as ways that profile do. Nil: with the dearest configuration alone.
	Known    []pipeline.Tried
	Ladders  [][]int // the settings of each knob that a policy is trained to choose among; nil: there is none
	Patience int     // intervals in which streams from both ends are to meet; 0: 15
	Close    func()
}

// Variant is a way to come by gradients.
type Variant struct {
	Name string
	Lag  int // as of pipeline.OneAdapt
	Move func(m *oneadapt.Map, of, in int) *oneadapt.Map
}

// registry are the pipelines that there are, in the order of the dissertation's table 4.2.
var registry = []struct {
	name string
	open func(Source) (*Study, error)
}{
	{"blocks", openBlocks},
	{"codec", openCodec},
	{"codec-streets", openStreets},
	{"filter", openFilter},
	{"lidar", openLiDAR(1)},
	{"lidar-10-gradients", openLiDAR(10)},
	{"features-4", openFeatures(rgb, 2)},
	{"features-16", openFeatures(rgb, 4)},
	{"features-64", openFeatures(rgb, 8)},
	{"features-depth-stand-in-16", openFeatures(depth, 4)},
	{"features-infrared-stand-in-16", openFeatures(infrared, 4)},
	{"audio", openAudio},
	{"segmentation", openSegmentation},
}

// Names are those of all pipelines.
func Names() (names []string) {
	for _, r := range registry {
		names = append(names, r.name)
	}
	return names
}

// Open is a pipeline's study. Its Close is to be called, from the goroutine of the backend.
func Open(name string, s Source) (*Study, error) {
	for _, r := range registry {
		if r.name == name {
			study, err := r.open(s)
			if err != nil {
				return nil, fmt.Errorf("pipeline %s: %w", name, err)
			}
			return study, nil
		}
	}
	return nil, fmt.Errorf("unknown pipeline %s: want one of %v", name, Names())
}

// Row is what a way took in one setting, over a whole stream.
type Row struct {
	Pipeline, Way, Setting string
	Intervals              int
	pipeline.Step          // accuracy and cost are means, the others sums
}

// OneAdapt is the way whose gain is told, and what names of its variants begin with.
const OneAdapt = "oneadapt"

// isOneAdapt says that a row is OneAdapt's.
func (r *Row) isOneAdapt() bool { return strings.HasPrefix(r.Way, OneAdapt) }

// usualVariant has gradients of the interval before.
func (s *Study) usualVariant() Variant { return Variant{Lag: 1, Move: s.Move} }

// adaptiveWay runs a study's rule.
func (s *Study) adaptiveWay(v Variant, trade float64, from oneadapt.Config) pipeline.Way {
	o := oneadapt.Usual()
	o.Ahead = s.Ahead
	if s.Sees {
		o.Blind = 0
	}
	return &pipeline.OneAdapt{Options: o, Lag: v.Lag, Move: v.Move, Rule: func([]oneadapt.Knob) (oneadapt.Rule, error) { return s.Rule(trade, from) }}
}

// settings are all that is run.
func (s *Study) settings() []Setting {
	all := slices.Concat(Uniform(s.Knobs()), s.Baselines)
	for _, v := range append([]Variant{s.usualVariant()}, s.Variants...) {
		name := strings.TrimSpace(OneAdapt + " " + v.Name)
		for _, trade := range s.Trades {
			all = append(all, Setting{name, fmt.Sprintf("trade=%g", trade), func() pipeline.Way { return s.adaptiveWay(v, trade, oneadapt.Dearest(s.Knobs())) }})
			if s.Known == nil {
				continue
			}
			from := pipeline.Goal{Weight: trade}.Best(s.Known)
			all = append(all, Setting{name, fmt.Sprintf("trade=%g,begun=known", trade), func() pipeline.Way { return s.adaptiveWay(v, trade, from) }})
		}
	}
	return all
}

// Uniform are the configurations whose knobs all have the same part of their ladder.
func Uniform(knobs []oneadapt.Knob) (all []Setting) {
	most := 0
	for i := range knobs {
		most = max(most, len(knobs[i].Places)-1)
	}
	for level := range most + 1 {
		c := make(oneadapt.Config, len(knobs))
		for i := range knobs {
			c[i] = level * (len(knobs[i].Places) - 1) / most
		}
		all = append(all, Setting{"fixed", fmt.Sprintf("level=%d", level), func() pipeline.Way { return pipeline.Fixed{Config: c} }})
	}
	return all
}

// Period is how often a profiler tries configurations, and for how long, in intervals.
type Period struct{ Every, Long int }

// Profiled are profilers that try configurations now and then, by some weights of the resource, on a server that has time for as many looks as they take.
func Profiled(name string, configs []oneadapt.Config, periods []Period, weights []float64) (all []Setting) {
	for _, p := range periods {
		for _, w := range weights {
			all = append(all, Setting{name, fmt.Sprintf("every=%d,long=%d,weight=%g", p.Every, p.Long, w), func() pipeline.Way {
				return &pipeline.Profiled{Every: p.Every, Long: p.Long, Goal: pipeline.Goal{Weight: w}, Search: pipeline.All(configs)}
			}})
		}
	}
	return all
}

// Run runs all settings of a study. Say is told of each before it runs.
func Run(s *Study, lab *pipeline.Lab, say func(what string, done, of int)) (rows []Row, err error) {
	settings := s.settings()
	for i, set := range settings {
		say(fmt.Sprintf("%s %s %s", s.Name(), set.Way, set.Setting), i, len(settings))
		steps, err := lab.Run(set.New())
		if err != nil {
			return nil, err
		}
		steps = steps[s.Warm:]
		rows = append(rows, Row{s.Name(), set.Way, set.Setting, len(steps), pipeline.Mean(steps)})
	}
	return rows, nil
}

// Write writes rows as CSV: accuracy, cost as a part of what the dearest configuration's is, and for each interval the looks of the network, gradients, times that
// the sensor prepared it, and bytes of gradients.
func Write(w io.Writer, rows []Row) error {
	t := figures.Table{Header: []string{"pipeline", "way", "setting", "intervals", "accuracy", "cost", "looks", "gradients", "prepared", "feedback"}}
	for _, r := range rows {
		each := func(n int) float64 { return float64(n) / float64(r.Intervals) }
		t.Add(r.Pipeline, r.Way, r.Setting, r.Intervals, r.Accuracy, r.Cost, each(r.Inferences), each(r.Gradients), each(r.Prepared), each(r.Feedback))
	}
	return t.CSV(w)
}
