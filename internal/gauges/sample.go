// Package gauges makes of two readings of a server's /metrics what an operator looks at: queues, caches, devices, rates
// and percentiles of the time between them.
package gauges

import (
	"fmt"
	"io"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Sample is one reading of all metrics.
type Sample struct {
	At     time.Time
	series map[string][]series // by the metric's name
}

// series is a metric's value for one set of labels; of a histogram it is the count.
type series struct {
	key     string // tells it from the metric's others
	labels  map[string]string
	value   float64
	sum     float64
	buckets []bucket // of a histogram: ascending, cumulative
}

type bucket struct{ bound, count float64 }

// Read reads the text of /metrics, taken then.
func Read(text io.Reader, at time.Time) (*Sample, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("these are not metrics in Prometheus' text format: %w", err)
	}
	s := &Sample{At: at, series: map[string][]series{}}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			s.series[name] = append(s.series[name], seriesOf(m))
		}
	}
	return s, nil
}

func seriesOf(m *dto.Metric) series {
	s := series{labels: map[string]string{}}
	var key strings.Builder
	for _, l := range m.GetLabel() { // in the order of the text, which a server keeps
		s.labels[l.GetName()] = l.GetValue()
		fmt.Fprintf(&key, "%q=%q,", l.GetName(), l.GetValue())
	}
	s.key = key.String()
	switch h := m.GetHistogram(); {
	case h != nil:
		s.value, s.sum = float64(h.GetSampleCount()), h.GetSampleSum()
		for _, b := range h.GetBucket() {
			s.buckets = append(s.buckets, bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
		}
	case m.GetCounter() != nil:
		s.value = m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		s.value = m.GetGauge().GetValue()
	default:
		s.value = m.GetUntyped().GetValue()
	}
	return s
}

// oldestStart is when the oldest of the processes that tell began.
func (s *Sample) oldestStart() time.Time {
	start := s.At
	for _, p := range s.series["process_start_time_seconds"] {
		if at := time.UnixMilli(int64(p.value * 1e3)); at.Before(start) {
			start = at
		}
	}
	return start
}

// sumGauge sums a gauge over the series that have a label's value; an empty label is all of them.
func (s *Sample) sumGauge(name, label, value string) (sum float64) {
	for _, p := range s.series[name] {
		if label == "" || p.labels[label] == value {
			sum += p.value
		}
	}
	return sum
}

// labelValues lists the values of a label, in the order of the text.
func (s *Sample) labelValues(name, label string) (list []string) {
	seen := map[string]bool{}
	for _, p := range s.series[name] {
		if v, found := p.labels[label]; found && !seen[v] {
			seen[v] = true
			list = append(list, v)
		}
	}
	return list
}
