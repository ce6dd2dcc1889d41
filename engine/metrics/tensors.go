package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/request"
)

// tensorVectors are the figures of requests of tensors, by model.
type tensorVectors struct {
	frames          *prometheus.CounterVec
	prepare, answer *prometheus.HistogramVec
}

// tensorRequests are those of one model.
type tensorRequests struct {
	frames          prometheus.Counter
	prepare, answer prometheus.Observer
	last            atomic.Int64 // when a request was last answered, in milliseconds of Unix time
}

func newTensorVectors(registry prometheus.Registerer, labels prometheus.Labels) *tensorVectors {
	frames := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "prefillonly:frames_total", Help: "Frames of answered requests.", ConstLabels: labels}, []string{"model_name"})
	registry.MustRegister(frames)
	return &tensorVectors{
		frames:  frames,
		prepare: newHistogram(registry, labels, "prefillonly:request_prepare_time_seconds", "Time in the decoding of a request, its pictures included.", secondsBuckets),
		answer:  newHistogram(registry, labels, "prefillonly:request_answer_time_seconds", "Time in the encoding and sending of a request's outputs.", secondsBuckets),
	}
}

func (v *tensorVectors) forModel(model string) *tensorRequests {
	return &tensorRequests{frames: v.frames.WithLabelValues(model), prepare: v.prepare.WithLabelValues(model), answer: v.answer.WithLabelValues(model)}
}

// observeFrames counts those of a request that is answered now.
func (t *tensorRequests) observeFrames(f *request.Frames) {
	t.last.Store(time.Now().UnixMilli())
	t.frames.Add(f.Count)
	t.prepare.Observe(f.Prepared.Seconds())
	t.answer.Observe(f.Written.Seconds())
}

// Statistics are what a model's requests came to in this frontend, of the same figures as the metrics.
func (r *Requests) Statistics(name, version string) oip.ModelStatistics {
	t := r.tensors()
	var frames dto.Metric
	_ = t.frames.Write(&frames) // of a counter it does not fail
	return oip.ModelStatistics{
		Name: name, Version: version, LastInference: t.last.Load(), InferenceCount: uint64(frames.GetCounter().GetValue()), Batch: []struct{}{},
		Inference: oip.InferenceStats{
			Success: readHistogram(r.e2e.Observer), Fail: readHistogram(r.failed), Queue: readHistogram(r.queue.Observer),
			ComputeInput: readHistogram(t.prepare), ComputeInfer: readHistogram(r.inference.Observer), ComputeOutput: readHistogram(t.answer),
		},
	}
}

// readHistogram reads a histogram of seconds.
func readHistogram(of prometheus.Observer) oip.Duration {
	var m dto.Metric
	_ = of.(prometheus.Metric).Write(&m) // of a histogram it does not fail
	h := m.GetHistogram()
	return oip.Duration{Count: h.GetSampleCount(), Nanoseconds: uint64(h.GetSampleSum() * 1e9)}
}
