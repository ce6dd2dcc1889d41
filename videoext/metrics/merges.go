package metrics

import "github.com/prometheus/client_golang/prometheus"

// Merge is how a model of a merge does.
type Merge struct {
	Model, State string
	Shared       int64   // bytes that the generation's models have once in place of several times
	Samples      uint64  // that the original has looked at, too, since the process began
	Score        float64 // F1 over the last of them
	Target       float64 // of the score
	Reverts      uint64
}

// The states of a model of a merge.
const (
	MergeOriginal = "original" // it is as it was
	MergeWatched  = "watched"
	MergeDrifted  = "drifted" // its original is to be served in its place
)

// mergeCollector is of the models of merges that there are.
type mergeCollector []Merge

var mergeState = mergeDesc("state", "1 for the state that a network of a merge is in.", "state")

// mergeFigures are the numbers of each.
var mergeFigures = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*Merge) float64
}{
	{mergeDesc("agreement", "F1 of what a merged network finds in frames of video streams, where what its original finds is the truth, over the last 200 samples in which there was something."),
		prometheus.GaugeValue, func(m *Merge) float64 { return m.Score }},
	{mergeDesc("target", "Least F1 that leaves a merged network where it is."), prometheus.GaugeValue, func(m *Merge) float64 { return m.Target }},
	{mergeDesc("samples_total", "Frames that the original of a merged network has looked at, too."), prometheus.CounterValue, func(m *Merge) float64 { return float64(m.Samples) }},
	{mergeDesc("reverts_total", "Times that a merged network had drifted, and its original was served again."), prometheus.CounterValue, func(m *Merge) float64 { return float64(m.Reverts) }},
	{mergeDesc("shared_bytes", "Bytes of weights that the models of the merge's current generation have once in place of several times."), prometheus.GaugeValue, func(m *Merge) float64 { return float64(m.Shared) }},
}

func mergeDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("prefillonly:merge_"+name, help, append([]string{"model_name"}, more...), nil)
}

// Describe implements prometheus.Collector.
func (mergeCollector) Describe(out chan<- *prometheus.Desc) {
	out <- mergeState
	for _, f := range mergeFigures {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c mergeCollector) Collect(out chan<- prometheus.Metric) {
	for i := range c {
		out <- prometheus.MustNewConstMetric(mergeState, prometheus.GaugeValue, 1, c[i].Model, c[i].State)
		for _, f := range mergeFigures {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(&c[i]), c[i].Model)
		}
	}
}
