package frontend

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/internal/tracing"
)

// maxChildren bounds the spans of a request's jobs.
const maxChildren = 64

// spanSource is a request that has ended, as the spans of its trace tell it: the HTTP exchange, the question to a model, each stage of
// processors, and each of its jobs in the queue and in passes.
type spanSource struct {
	Method, Route, Path string
	ID                  string
	Status              int
	Failed              string // the code of its error; empty: it was answered
	Begun, Ended        time.Time

	Model  string          // the pool's name; with a Record
	Record *request.Record // nil: nothing was asked of a model
	Jobs   client.Trace
	Device func(executor string) string // what GPU an executor has; empty where it has none
}

// Count implements tracing.Story.
func (e *spanSource) Count() int {
	if e.Record == nil {
		return 1
	}
	_, children := e.jobs()
	return 2 + len(e.Record.Stages) + children
}

// jobs are those that have spans of their own, and how many spans they have.
func (e *spanSource) jobs() (jobs []client.Times, spans int) {
	for i := range e.Jobs.Jobs {
		n := spansOf(&e.Jobs.Jobs[i])
		if spans+n > maxChildren {
			return e.Jobs.Jobs[:i], spans
		}
		spans += n
	}
	return e.Jobs.Jobs, spans
}

// spansOf is how many spans a job has: none as long as it has no Result, else one in the queue and one in passes, and one more where
// it waited for weights.
func spansOf(j *client.Times) int {
	switch {
	case j.Submitted.IsZero():
		return 0
	case j.Loading > 0:
		return 3
	}
	return 2
}

// Spans implements tracing.Story.
func (e *spanSource) Spans() []tracing.Span {
	all := append(make([]tracing.Span, 0, e.Count()), e.exchange())
	if e.Record == nil {
		return all
	}
	all = append(all, e.request(e.Record))
	for i := range e.Record.Stages {
		all = append(all, stageSpan(&e.Record.Stages[i]))
	}
	jobs, _ := e.jobs()
	for i := range jobs {
		if spansOf(&jobs[i]) > 0 {
			all = e.job(all, i, &jobs[i])
		}
	}
	return all
}

// exchange is the span of the HTTP request, by OpenTelemetry's conventions for HTTP servers.
func (e *spanSource) exchange() tracing.Span {
	s := tracing.Span{Name: e.Method + " " + e.Route, Server: true, Begin: e.Begun, End: e.Ended, Attributes: []tracing.Attribute{
		tracing.Text("http.request.method", e.Method), tracing.Text("http.route", e.Route), tracing.Text("url.path", e.Path), tracing.Text("url.scheme", "http"),
		tracing.Int("http.response.status_code", e.Status), tracing.Text("http.request.header.x-request-id", e.ID),
	}}
	if e.Failed != "" {
		s.Attributes = append(s.Attributes, tracing.Text("error.type", e.Failed))
	}
	if e.Status >= 500 { // what the client did wrong is no error of the server's
		s.Failed = e.Failed
	}
	return s
}

// request is the span that vLLM has of a request.
func (e *spanSource) request(r *request.Record) tracing.Span {
	s := tracing.Span{Name: "llm_request", Begin: e.Begun, End: e.Ended, Failed: e.Failed, Attributes: make([]tracing.Attribute, 0, 18)}
	s.Attributes = append(s.Attributes,
		tracing.Text("gen_ai.request.id", e.ID), tracing.Text("gen_ai.response.model", e.Model), tracing.Int("gen_ai.usage.num_sequences", r.Jobs),
		tracing.Seconds("gen_ai.latency.e2e", e.Ended.Sub(e.Begun)), tracing.Seconds("gen_ai.latency.time_in_queue", r.Queued))
	shown, _ := e.jobs()
	if r.Jobs > len(shown) {
		s.Attributes = append(s.Attributes, tracing.Int("prefillonly.jobs_without_spans", r.Jobs-len(shown)))
	}
	switch {
	case r.Tokens != nil:
		s.Attributes = e.tokens(s.Attributes, r)
	case r.Frames != nil:
		s.Attributes = append(s.Attributes, tracing.Float("prefillonly.frames", r.Frames.Count), tracing.Seconds("prefillonly.time_in_prepare", r.Frames.Prepared))
		fallthrough
	default:
		s.Attributes = append(s.Attributes, tracing.Seconds("gen_ai.latency.time_in_model_inference", r.Inference()))
	}
	return s
}

// tokens appends the attributes of a request of tokens.
func (e *spanSource) tokens(to []tracing.Attribute, r *request.Record) []tracing.Attribute {
	t := r.Tokens
	to = append(to,
		tracing.Int("gen_ai.request.n", t.N), tracing.Int("gen_ai.request.max_tokens", t.Max),
		tracing.Int("gen_ai.usage.prompt_tokens", t.Prompt), tracing.Int("gen_ai.usage.completion_tokens", t.Completion),
		tracing.Int("gen_ai.usage.cache_read.input_tokens", t.Cached))
	if !t.First.IsZero() {
		to = append(to,
			tracing.Seconds("gen_ai.latency.time_to_first_token", t.First.Sub(e.Begun)), tracing.Seconds("gen_ai.latency.time_in_model_prefill", t.Prefilled),
			tracing.Seconds("gen_ai.latency.time_in_model_decode", t.Decode()), tracing.Seconds("gen_ai.latency.time_in_model_inference", r.Inference()))
	}
	if r.Finish != "" {
		to = append(to, tracing.Text("gen_ai.response.finish_reason", r.Finish))
	}
	return to
}

// stageSpan is the span of a stage of processors.
func stageSpan(s *request.Stage) tracing.Span {
	return tracing.Span{Name: "stage", Parent: 1, Begin: s.Asked, End: s.Ended, Attributes: []tracing.Attribute{
		tracing.Text("prefillonly.stage", s.Kind), tracing.Seconds("prefillonly.time_in_queue", s.Waited),
	}}
}

// job appends the spans of the i-th job: in the queue, there waiting for the weights of its model, and in passes.
func (e *spanSource) job(to []tracing.Span, i int, j *client.Times) []tracing.Span {
	started := j.Submitted.Add(j.Queued)
	index := tracing.Int("prefillonly.job", i)
	queue := len(to)
	to = append(to, tracing.Span{Name: "queue", Parent: 1, Begin: j.Submitted, End: started, Attributes: []tracing.Attribute{index}})
	if j.Loading > 0 {
		to = append(to, tracing.Span{Name: "load", Parent: queue, Begin: j.Submitted, End: j.Submitted.Add(j.Loading), Attributes: []tracing.Attribute{index}})
	}
	pass := tracing.Span{Name: "pass", Parent: 1, Begin: started, End: j.Last, Attributes: []tracing.Attribute{
		index, tracing.Text("prefillonly.executor", j.Executor), tracing.Float("prefillonly.rows", j.Units-float64(j.Cached)),
		tracing.Int("prefillonly.cached_tokens", j.Cached), tracing.Seconds("prefillonly.time_in_passes", j.Running),
	}}
	if device := e.Device(j.Executor); device != "" {
		pass.Attributes = append(pass.Attributes, tracing.Text("prefillonly.device", device))
	}
	return append(to, pass)
}
