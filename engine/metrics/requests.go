package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prefillonly/prefillonly/engine/request"
)

// Buckets as vLLM has them, with finer ones below 300 ms, where one-pass answers are.
var (
	secondsBuckets = []float64{.0005, .001, .0025, .005, .01, .02, .04, .06, .08, .1, .15, .2, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920}
	tokensBuckets  = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5}
	choicesBuckets = []float64{1, 2, 5, 10, 20}
)

// requestVectors are the figures of requests, by model.
type requestVectors struct {
	promptTokens, generationTokens, cachedTokens *prometheus.CounterVec
	finished                                     *prometheus.CounterVec // by model and reason
	e2e, firstToken, betweenTokens               *prometheus.HistogramVec
	queue, inference, prefill, decode            *prometheus.HistogramVec
	promptLength, computedLength, outputLength   *prometheus.HistogramVec
	maxTokens, n                                 *prometheus.HistogramVec
	failed                                       *prometheus.HistogramVec
	tensors                                      *tensorVectors
}

// Requests are the figures of one model's requests.
type Requests struct {
	promptTokens, generationTokens, cachedTokens prometheus.Counter
	finished                                     map[string]prometheus.Counter // by reason
	e2e, firstToken                              latency
	queue, inference, prefill, decode            latency
	betweenTokens                                prometheus.Observer
	promptLength, computedLength, outputLength   prometheus.Observer
	maxTokens, n                                 prometheus.Observer
	failed                                       prometheus.Observer
	tensors                                      func() *tensorRequests // there from the first on

	// Between observes the time between two tokens of an answer.
	Between func(time.Duration)
}

func newRequestVectors(registry prometheus.Registerer, labels prometheus.Labels) *requestVectors {
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:" + name, Help: help, ConstLabels: labels}, append([]string{"model_name"}, more...))
		registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return newHistogram(registry, labels, "vllm:"+name, help, buckets)
	}
	return &requestVectors{
		failed:           newHistogram(registry, labels, "prefillonly:failed_request_seconds", "From a request's arrival to its refusal or failure, once its jobs were made.", secondsBuckets),
		tensors:          newTensorVectors(registry, labels),
		promptTokens:     counter("prompt_tokens_total", "Prompt tokens of answered requests."),
		generationTokens: counter("generation_tokens_total", "Tokens generated."),
		cachedTokens:     counter("prompt_tokens_cached_total", "Prompt tokens found in the prefix cache."),
		finished:         counter("request_success_total", "Finished requests by reason.", "finished_reason"),
		e2e:              histogram("e2e_request_latency_seconds", "From a request's arrival to its answer.", secondsBuckets),
		firstToken:       histogram("time_to_first_token_seconds", "From a request's arrival to its first token.", secondsBuckets),
		betweenTokens:    histogram("inter_token_latency_seconds", "Between two tokens of an answer.", secondsBuckets),
		queue:            histogram("request_queue_time_seconds", "Time in the scheduler's queue.", secondsBuckets),
		inference:        histogram("request_inference_time_seconds", "From the start of a request's first pass to its last token.", secondsBuckets),
		prefill:          histogram("request_prefill_time_seconds", "Time in passes until a request's first token.", secondsBuckets),
		decode:           histogram("request_decode_time_seconds", "From a request's first token to its last.", secondsBuckets),
		promptLength:     histogram("request_prompt_tokens", "Prompt tokens of a request.", tokensBuckets),
		computedLength:   histogram("request_prefill_kv_computed_tokens", "Prompt tokens of a request that were not in the prefix cache.", tokensBuckets),
		outputLength:     histogram("request_generation_tokens", "Tokens generated for a request.", tokensBuckets),
		maxTokens:        histogram("request_params_max_tokens", "max_tokens of a request.", tokensBuckets),
		n:                histogram("request_params_n", "n of a request.", choicesBuckets),
	}
}

// newHistogram registers a histogram by model.
func newHistogram(registry prometheus.Registerer, labels prometheus.Labels, name, help string, buckets []float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets, ConstLabels: labels}, []string{"model_name"})
	registry.MustRegister(h)
	return h
}

func (v *requestVectors) forModel(model string) *Requests {
	r := &Requests{
		promptTokens: v.promptTokens.WithLabelValues(model), generationTokens: v.generationTokens.WithLabelValues(model),
		cachedTokens: v.cachedTokens.WithLabelValues(model), finished: map[string]prometheus.Counter{},
		e2e: newLatency(v.e2e.WithLabelValues(model)), firstToken: newLatency(v.firstToken.WithLabelValues(model)), betweenTokens: v.betweenTokens.WithLabelValues(model),
		queue: newLatency(v.queue.WithLabelValues(model)), inference: newLatency(v.inference.WithLabelValues(model)),
		prefill: newLatency(v.prefill.WithLabelValues(model)), decode: newLatency(v.decode.WithLabelValues(model)),
		promptLength: v.promptLength.WithLabelValues(model), computedLength: v.computedLength.WithLabelValues(model),
		outputLength: v.outputLength.WithLabelValues(model), maxTokens: v.maxTokens.WithLabelValues(model), n: v.n.WithLabelValues(model),
		failed:  v.failed.WithLabelValues(model),
		tensors: sync.OnceValue(func() *tensorRequests { return v.tensors.forModel(model) }),
	}
	r.Between = func(d time.Duration) { r.betweenTokens.Observe(d.Seconds()) }
	for _, reason := range []string{"stop", "length", "abort", "error"} {
		r.finished[reason] = v.finished.WithLabelValues(model, reason)
	}
	return r
}

// Aborted counts a request whose client left.
func (r *Requests) Aborted() { r.finished["abort"].Inc() }

// Failed counts a request that arrived then and was refused or failed now, after its jobs were made.
func (r *Requests) Failed(arrived time.Time) {
	r.finished["error"].Inc()
	r.failed.Observe(time.Since(arrived).Seconds())
}

// Answered counts a request that arrived then and is answered now. Trace is its id, where it has one.
func (r *Requests) Answered(arrived time.Time, of *request.Record, trace string) {
	r.finished[of.Finish].Inc()
	r.e2e.observeDuration(time.Since(arrived), trace)
	r.queue.observeDuration(of.Queued, trace)
	r.inference.observeDuration(of.Inference(), trace)
	if of.Tokens != nil {
		r.observeTokens(arrived, of.Tokens, trace)
	}
	if of.Frames != nil {
		r.tensors().observeFrames(of.Frames)
	}
}

func (r *Requests) observeTokens(arrived time.Time, t *request.Tokens, trace string) {
	r.promptTokens.Add(float64(t.Prompt))
	r.generationTokens.Add(float64(t.Completion))
	r.cachedTokens.Add(float64(t.Cached))
	r.firstToken.observeDuration(t.First.Sub(arrived), trace)
	r.prefill.observeDuration(t.Prefilled, trace)
	r.decode.observeDuration(t.Decode(), trace)
	r.promptLength.Observe(float64(t.Prompt))
	r.computedLength.Observe(float64(t.Prompt - t.Cached))
	r.outputLength.Observe(float64(t.Completion))
	r.maxTokens.Observe(float64(t.Max))
	r.n.Observe(float64(t.N))
}
