package metrics

import (
	"math"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Totals are figures of the requests of all models at one frontend, since it was started.
type Totals struct {
	Answered, Refused float64
	Latency           map[float64]float64 // answers by their time in seconds, cumulative by upper bound
}

// Totals are those of the frontends on the port, by a name of each. One that does not tell them in time is left out.
func (m *Metrics) Totals() map[string]Totals {
	all := map[string]Totals{m.cfg.Socket: readTotals(m.own)}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, socket := range slices.Compact(slices.Sorted(slices.Values(m.cfg.Siblings))) {
		for _, sibling := range newSources(m.cfg.Socket, socket) {
			group.Go(func() { // ends within sourceTimeout
				t := readTotals(sibling)
				mu.Lock()
				defer mu.Unlock()
				if t.Latency != nil {
					all[socket] = t
				}
			})
		}
	}
	group.Wait()
	return all
}

// readTotals reads them; what tells nothing has no Latency.
func readTotals(g prometheus.Gatherer) Totals {
	var t Totals
	families, _ := g.Gather() // what cannot be read is 0
	if len(families) > 0 {
		t.Latency = map[float64]float64{}
	}
	for _, family := range families {
		switch family.GetName() {
		case "vllm:e2e_request_latency_seconds":
			for _, one := range family.Metric {
				t.addHistogram(one.GetHistogram())
			}
		case "prefillonly:refused_requests_total":
			for _, one := range family.Metric {
				t.Refused += one.GetCounter().GetValue()
			}
		}
	}
	return t
}

func (t *Totals) addHistogram(h *dto.Histogram) {
	n := float64(h.GetSampleCount())
	t.Answered += n
	for _, b := range h.Bucket {
		if bound := b.GetUpperBound(); !math.IsInf(bound, 1) {
			t.Latency[bound] += float64(b.GetCumulativeCount())
		}
	}
	t.Latency[math.Inf(1)] += n
}
