package metrics

import (
	"maps"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Merge is how a network of a merge does, as the process that keeps video streams tells it.
type Merge struct {
	Model, State     string
	Shared           uint64 // bytes
	Score, Target    float64
	Samples, Reverts float64
}

// Merges are the networks of merges by their names. If that process does not tell them in time there are none.
func (m *Metrics) Merges() (list []Merge) {
	if m.video == nil {
		return nil
	}
	families, _ := m.video.Gather()
	all := map[string]*Merge{}
	for _, family := range families {
		set := mergeFields[family.GetName()]
		for _, one := range family.Metric {
			if set == nil {
				break
			}
			model := labelOf(one, "model_name")
			if all[model] == nil {
				all[model] = &Merge{Model: model}
			}
			set(all[model], one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[name])
	}
	return list
}

// mergeFields are the figures of a Merge.
var mergeFields = map[string]func(*Merge, *dto.Metric){
	"prefillonly:merge_state":         func(m *Merge, of *dto.Metric) { m.State = labelOf(of, "state") },
	"prefillonly:merge_shared_bytes":  func(m *Merge, of *dto.Metric) { m.Shared = uint64(of.GetGauge().GetValue()) },
	"prefillonly:merge_agreement":     func(m *Merge, of *dto.Metric) { m.Score = of.GetGauge().GetValue() },
	"prefillonly:merge_target":        func(m *Merge, of *dto.Metric) { m.Target = of.GetGauge().GetValue() },
	"prefillonly:merge_samples_total": func(m *Merge, of *dto.Metric) { m.Samples = of.GetCounter().GetValue() },
	"prefillonly:merge_reverts_total": func(m *Merge, of *dto.Metric) { m.Reverts = of.GetCounter().GetValue() },
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
