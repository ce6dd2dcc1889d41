package bench

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/bench/load"
	"github.com/prefillonly/prefillonly/scheduler/sim/host"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// publishedLate is how many of 60 requests were late in the report on asynchronous pre- and postprocessing, by setting and system.
var publishedLate = map[string]map[string]float64{
	"A1": {"os": 7, "fifo cap 1": 17, "slo cap 1": 0},
	"A2": {"slo cap 1": 0, "slo cap 2": 3, "slo cap 4": 14, "slo cap 6": 37},
	"B1": {"os": 3, "fifo cap 1": 16, "slo cap 1": 18, "slo cap 2": 8, "slo cap 4": 1, "slo cap 6": 1},
}

// compareStageOrders compares ways to give processors to CPU stages, and draws the report's figures.
func (x *Experiments) compareStageOrders() error {
	table := &figures.Table{Header: []string{
		"setting", "load", "system", "requests", "late_percent", "published_percent", "unanswered_percent", "mean_s", "frames", "late_frames_percent", "wasted_percent",
	}}
	for _, s := range presets.StageSettings() {
		for _, system := range s.Systems() {
			x.printNextRun("%v, %s", s, system.Name)
			o := s.Run(system.System, x.Seed)
			published, frames := math.NaN(), math.NaN()
			if late, ok := publishedLate[s.Name][system.Name]; ok {
				published = 100 * late / 60
			}
			if o.Frames > 0 {
				frames = o.LateFrameShare()
			}
			table.Add(s.Name, s.Load, system.Name, o.Requests, o.LateShare(), published, o.UnansweredShare(), o.Latency.Seconds(), o.Frames, frames, o.WastedShare())
		}
	}
	if x.Out != "" {
		if err := x.drawStages(); err != nil {
			return err
		}
	}
	return x.saveTable("stages", table)
}

// reportFigures are the report's figures of latencies and of the medians of stages, and the systems of each beside ours.
var reportFigures = []struct {
	setting            string
	latencies, medians int
	systems            []string
}{
	{"A1", 2, 4, []string{"os", "fifo cap 1", "slo cap 1"}},
	{"A2", 3, 5, []string{"slo cap 1", "slo cap 2", "slo cap 4", "slo cap 6"}},
	{"B1", 6, 8, []string{"os", "fifo cap 1", "slo cap 1"}},
	{"B1", 7, 9, []string{"slo cap 1", "slo cap 2", "slo cap 4", "slo cap 6"}},
}

func (x *Experiments) drawStages() error {
	settings := map[string]presets.Stages{}
	for _, s := range presets.StageSettings() {
		settings[s.Name] = s
	}
	if err := x.drawStageTimes(settings["A1"], "fifo cap 1"); err != nil {
		return err
	}
	for _, f := range reportFigures {
		s := settings[f.setting]
		latencies := &figures.Chart{Title: "Latencies, setting " + s.Name, X: "latency, of the goal", Y: "share of requests", Steps: true}
		medians := &figures.Bars{Title: "Medians of stages, setting " + s.Name, Y: "seconds"}
		for _, system := range s.Systems() {
			if system.Name != presets.Ours && !slices.Contains(f.systems, system.Name) {
				continue
			}
			x.printNextRun("figures of %v, %s", s, system.Name)
			var records []*host.Record
			for trace := range s.Traces {
				records = append(records, s.Play(system.System, x.Seed+uint64(trace))...)
			}
			addLatencies(latencies, system.Name, records)
			addMedians(medians, system.Name, records)
		}
		if err := latencies.Write(x.stageFigure(f.latencies)); err != nil {
			return err
		}
		if err := medians.Write(x.stageFigure(f.medians)); err != nil {
			return err
		}
	}
	return nil
}

func (x *Experiments) stageFigure(number int) string {
	return x.figurePath(fmt.Sprintf("stages-figure-%d", number))
}

// addLatencies adds the distribution of latencies; what is not answered is beyond its end.
func addLatencies(chart *figures.Chart, system string, records []*host.Record) {
	var of []float64
	for _, r := range records {
		if r.Answered {
			of = append(of, presets.LateBy*r.Latency.Seconds()/r.Within.Seconds())
		}
	}
	slices.Sort(of)
	for i := range 101 {
		if len(of) > 0 {
			k := i * (len(of) - 1) / 100
			chart.Add(system, of[k], float64(k+1)/float64(len(records)))
		}
	}
}

// addMedians adds what is waited for each part and what it takes.
func addMedians(bars *figures.Bars, system string, records []*host.Record) {
	parts := records[0].Parts
	series := figures.Series{Name: system}
	bars.Groups = nil
	for k, p := range parts {
		var waited, ran []time.Duration
		for _, r := range records {
			if len(r.Ran) > k {
				waited, ran = append(waited, r.Waited[k]), append(ran, r.Ran[k])
			}
		}
		slices.Sort(waited)
		slices.Sort(ran)
		bars.Groups = append(bars.Groups, p.Kind+", wait", p.Kind)
		series.Y = append(series.Y, load.Percentile(waited, 50).Seconds(), load.Percentile(ran, 50).Seconds())
	}
	bars.Series = append(bars.Series, series)
}

// drawStageTimes draws when the parts of the first requests began and ended, in one trace.
func (x *Experiments) drawStageTimes(s presets.Stages, system string) error {
	chart := &figures.Chart{Title: fmt.Sprintf("Parts of requests, setting %s, %s", s.Name, system), X: "seconds", Y: "request"}
	for _, of := range s.Systems() {
		if of.Name != system {
			continue
		}
		for i, r := range s.Play(of.System, x.Seed)[:20] {
			at := r.At
			chart.Add("comes", at.Seconds(), float64(i))
			for k, p := range r.Parts[:len(r.Ran)] {
				at += r.Waited[k]
				chart.Add(p.Kind+" begins", at.Seconds(), float64(i))
				at += r.Ran[k]
			}
			chart.Add("ends", at.Seconds(), float64(i))
		}
	}
	return chart.Write(x.stageFigure(1))
}
