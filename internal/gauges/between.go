package gauges

import "math"

// span is two samples of one server, the first of which may be missing: then all that was counted since the server
// started is between them.
type span struct {
	before, now *Sample
	seconds     float64
}

// counterGrowth is by how much a counter, or the count of a histogram, has grown over the series that have a label's value; an
// empty label is all of them. What fell began anew at zero, as in a process that was started again.
func (s *span) counterGrowth(name, label, value string) (sum float64) {
	s.eachSeries(name, label, value, func(now, before series) { sum += now.value - before.value })
	return sum
}

// counterRate is total in a second.
func (s *span) counterRate(name, label, value string) float64 {
	if s.seconds <= 0 {
		return 0
	}
	return s.counterGrowth(name, label, value) / s.seconds
}

// eachSeries calls visit for every series that has a label's value, with what it was before; zero where it began anew.
func (s *span) eachSeries(name, label, value string, visit func(now, before series)) {
	old := map[string]series{}
	if s.before != nil {
		for _, p := range s.before.series[name] {
			old[p.key] = p
		}
	}
	for _, now := range s.now.series[name] {
		if label != "" && now.labels[label] != value {
			continue
		}
		before := old[now.key]
		if before.value > now.value || len(before.buckets) != len(now.buckets) {
			before = series{buckets: make([]bucket, len(now.buckets))}
		}
		visit(now, before)
	}
}

// Distribution is a histogram of what was observed in a span; its zero value is of nothing.
type Distribution struct {
	Count, Sum float64
	buckets    []bucket
}

// sumHistograms adds up the histograms that have a label's value.
func (s *span) sumHistograms(name, label, value string) (d Distribution) {
	s.eachSeries(name, label, value, func(now, before series) {
		d.Count += now.value - before.value
		d.Sum += now.sum - before.sum
		if d.buckets == nil {
			d.buckets = make([]bucket, len(now.buckets))
		}
		if len(d.buckets) != len(now.buckets) { // of another program's version; its bounds say nothing of these
			return
		}
		for i, b := range now.buckets {
			d.buckets[i].bound = b.bound
			d.buckets[i].count += b.count - before.buckets[i].count
		}
	})
	return d
}

// Mean is NaN of nothing.
func (d *Distribution) Mean() float64 { return d.Sum / d.Count }

// Quantile is the value below which a share q is, as histogram_quantile of Prometheus has it: in a bucket, values are taken
// to lie evenly; beyond the last bound it is that bound. NaN of nothing.
func (d *Distribution) Quantile(q float64) float64 {
	if d.Count <= 0 {
		return math.NaN()
	}
	rank, below := q*d.Count, bucket{}
	for _, b := range d.buckets {
		switch {
		case math.IsInf(b.bound, 1):
			return below.bound
		case b.count >= rank && b.count > below.count:
			return below.bound + (b.bound-below.bound)*(rank-below.count)/(b.count-below.count)
		}
		below = b
	}
	return below.bound
}
