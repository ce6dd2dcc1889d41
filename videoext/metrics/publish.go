package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Stream is a stream's figures at one time.
type Stream struct {
	Name, Model, State string
	Load               float64 // devices that it is expected to take
	Counted
}

// Handler publishes the figures of the streams that who asks may see, and of the models of merges, in Prometheus' format.
func Handler(streams func(r *http.Request) []Stream, merges func() []Merge) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all := prometheus.NewRegistry()
		all.MustRegister(newCollector(streams(r)), mergeCollector(merges()))
		promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}

// figure is one number of a stream.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*Stream) float64
	more []string // values of labels beyond those of all
}

// collector is of the streams that there are: those that were removed have no series.
type collector struct {
	streams        []Stream
	state, latency *prometheus.Desc
	figures        []figure
}

func newCollector(streams []Stream) *collector {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("prefillonly:stream_"+name, help, append([]string{"stream_name", "model_name"}, more...), nil)
	}
	c := &collector{
		streams: streams,
		state:   desc("state", "1 for the state that the video stream is in.", "state"),
		latency: desc("latency_seconds", "From the coming of a frame, or of its segment, to its final result."),
	}
	add := func(d *prometheus.Desc, kind prometheus.ValueType, of func(*Stream) float64, more ...string) {
		c.figures = append(c.figures, figure{d, kind, of, more})
	}
	counter := func(name, help string, of func(*Stream) float64) { add(desc(name, help), prometheus.CounterValue, of) }
	add(desc("load", "Devices that the video stream is expected to take."), prometheus.GaugeValue, func(s *Stream) float64 { return s.Load })
	counter("frames_total", "Frames with final results.", func(s *Stream) float64 { return float64(s.Frames) })
	counter("late_frames_total", "Frames whose final results came after the deadline.", func(s *Stream) float64 { return float64(s.Late) })
	counter("dropped_frames_total", "Frames that the network did not see, but for those that a camera left out.", func(s *Stream) float64 { return float64(s.Dropped) })
	counter("discontinuities_total", "Frames whose time, as the source says it, does not follow that of the frame before.", func(s *Stream) float64 { return float64(s.Discontinuities) })
	counter("boxes_total", "Boxes in final results.", func(s *Stream) float64 { return float64(s.Things) })
	counter("box_scores_total", "Sum of the scores of boxes in final results.", func(s *Stream) float64 { return s.Score })
	counter("regions_total", "Regions that a camera was asked for.", func(s *Stream) float64 { return float64(s.Regions) })
	counter("gradients_total", "Gradients of the network that a camera's knobs were to follow.", func(s *Stream) float64 { return float64(s.Gradients.Asked) })
	counter("late_gradients_total", "Gradients that were dropped at their deadline, or came after it.", func(s *Stream) float64 { return float64(s.Gradients.Late) })
	counter("failed_gradients_total", "Gradients of which nothing came for another reason.", func(s *Stream) float64 { return float64(s.Gradients.Failed) })
	counter("feedback_bytes_total", "Bytes of gradients that a camera was told.", func(s *Stream) float64 { return float64(s.Gradients.Feedback) })
	counter("gradient_device_seconds_total", "Time inside passes of gradients, which is in device_seconds_total, too.", func(s *Stream) float64 { return s.Gradients.Computing.Seconds() })
	bytes := desc("bytes_total", "Bytes of video that came: of a camera's streams A and B, or of the source (A).", "track")
	for i, track := range []string{"a", "b"} {
		add(bytes, prometheus.CounterValue, func(s *Stream) float64 { return float64(s.Bytes[i]) }, track)
	}
	processor := desc("processor_seconds_total", "Processor's time in the process that keeps video streams: to decode, to make inputs (scale), to read outputs.", "work")
	waited := desc("wait_seconds_total", "Time in which frames waited: for a processor's turn, and in the queue for a pass.", "reason")
	device := desc("device_seconds_total", "Time inside passes of the network.")
	for _, spent := range []struct {
		desc *prometheus.Desc
		of   func(*Spent) time.Duration
		more []string
	}{
		{processor, func(s *Spent) time.Duration { return s.Decode }, []string{"decode"}},
		{processor, func(s *Spent) time.Duration { return s.Scale }, []string{"scale"}},
		{processor, func(s *Spent) time.Duration { return s.Read }, []string{"read"}},
		{waited, func(s *Spent) time.Duration { return s.Turn }, []string{"turn"}},
		{waited, func(s *Spent) time.Duration { return s.Queue }, []string{"queue"}},
		{device, func(s *Spent) time.Duration { return s.Device }, nil},
	} {
		add(spent.desc, prometheus.CounterValue, func(s *Stream) float64 { return spent.of(&s.Spent).Seconds() }, spent.more...)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	out <- c.latency
	for _, f := range c.figures {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.streams {
		out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, 1, s.Name, s.Model, s.State)
		count, below := s.latencyHistogram()
		out <- prometheus.MustNewConstHistogram(c.latency, count, s.Seconds, below, s.Name, s.Model)
		for _, f := range c.figures {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(&s), append([]string{s.Name, s.Model}, f.more...)...)
		}
	}
}

// latencyHistogram is how many frames there are, and how many within each bound of latency.
func (c *Counted) latencyHistogram() (count uint64, below map[float64]uint64) {
	below = map[float64]uint64{}
	for i, bound := range buckets {
		if i < len(c.Latency) {
			count += c.Latency[i]
		}
		below[bound] = count
	}
	if len(c.Latency) > len(buckets) {
		count += c.Latency[len(buckets)]
	}
	return count, below
}
