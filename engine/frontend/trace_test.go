package frontend

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/tracing"
	"github.com/prefillonly/prefillonly/internal/tracing/tracingtest"
)

const callers = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// newTracer makes one that sends to endpoint at once.
func newTracer(t testing.TB, endpoint string) *tracing.Tracer {
	t.Helper()
	settings, err := tracing.Read(endpoint, func(name string) string { return map[string]string{"OTEL_BSP_SCHEDULE_DELAY": "20"}[name] }, tracing.Process{Service: "prefillonly"})
	if err != nil {
		t.Fatal(err)
	}
	tracer, err := tracing.New(settings, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tracer.Close(t.Context()) })
	return tracer
}

// newTraced is a frontend that sends spans to a collector, and whose jobs have waited for weights.
func newTraced(t *testing.T, cfg Config) (*Frontend, *tracingtest.Collector) {
	t.Helper()
	c := tracingtest.Start(t)
	cfg.Tracer = newTracer(t, c.GRPC)
	f, s := newFrontend(t, cfg, func(s *wire.Submit) []*wire.Result {
		r := replies(s, []engine.TokenID{'Y'})
		r[0].Output.(*engine.TokenOutput).Cached = 1
		r[0].Timing = engine.Timing{Queued: 30 * time.Millisecond, Loading: 20 * time.Millisecond, Running: 5 * time.Millisecond, Executor: "cuda-0"}
		return r
	})
	w := welcome(1)
	w.States = []wire.ExecutorState{{Name: "cuda-0", GPU: "NVIDIA H200"}}
	s.Deliver(w)
	return f, c
}

// attribute is an attribute of a span in words; empty without one.
func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key != key {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_DoubleValue:
			return fmt.Sprint(v.DoubleValue)
		}
	}
	return ""
}

// TestTrace: one trace from the HTTP request to the pass, in that of the caller.
func TestTrace(t *testing.T) {
	f, c := newTraced(t, Config{})
	w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"abc","max_tokens":1}`, "Traceparent", callers, "X-Request-Id", "mine")
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	all := c.Spans(t, 5)
	names := map[string]*tracepb.Span{}
	for _, s := range all {
		names[s.Name] = s
		if string(s.TraceId) != string(all[0].TraceId) || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%v", s)
		}
	}
	root, request, queue, load, pass := names["POST /v1/completions"], names["llm_request"], names["queue"], names["load"], names["pass"]
	if len(all) != 5 || root == nil || request == nil || queue == nil || load == nil || pass == nil {
		t.Fatalf("%v", all)
	}
	for of, parent := range map[*tracepb.Span]*tracepb.Span{request: root, queue: request, pass: request, load: queue} {
		if string(of.ParentSpanId) != string(parent.SpanId) {
			t.Errorf("the parent of %s is not %s", of.Name, parent.Name)
		}
	}
	if string(root.ParentSpanId) != "\xb7\xad\x6b\x71\x69\x20\x33\x31" || root.Kind != tracepb.Span_SPAN_KIND_SERVER {
		t.Errorf("%v", root)
	}
	for _, want := range []struct {
		of         *tracepb.Span
		key, value string
	}{
		{root, "http.response.status_code", "200"}, {root, "http.route", "/v1/completions"},
		{request, "gen_ai.request.id", "mine"}, {request, "gen_ai.usage.prompt_tokens", "4"}, {request, "gen_ai.usage.completion_tokens", "1"},
		{request, "gen_ai.latency.time_in_queue", "0.03"}, {request, "gen_ai.latency.time_in_model_prefill", "0.005"}, {request, "gen_ai.response.model", "demo"},
		{pass, "prefillonly.executor", "cuda-0"}, {pass, "prefillonly.device", "NVIDIA H200"},
		{pass, "prefillonly.rows", "3"}, {pass, "prefillonly.cached_tokens", "1"},
	} {
		if got := attribute(want.of, want.key); got != want.value {
			t.Errorf("%s: %s is %s, want %s", want.of.Name, want.key, got, want.value)
		}
	}
	if took := time.Duration(load.EndTimeUnixNano - load.StartTimeUnixNano); took != 20*time.Millisecond || load.StartTimeUnixNano != queue.StartTimeUnixNano || pass.StartTimeUnixNano != queue.EndTimeUnixNano {
		t.Errorf("queue %v, load %v, pass %v", queue, load, pass)
	}
	for limit := time.Now().Add(time.Minute); f.cfg.Tracer.Counts().Sent < 5; time.Sleep(time.Millisecond) { // the collector's answer is on its way
		if time.Now().After(limit) {
			t.Fatalf("%+v a minute later", f.cfg.Tracer.Counts())
		}
	}
	text := do(f, http.MethodGet, "/metrics", "", "Accept", "application/openmetrics-text; version=1.0.0").Body.String()
	for _, want := range []string{`vllm:time_to_first_token_seconds_bucket`, `# {trace_id="0af7651916cd43dd8448eb211c80319c"}`, `prefillonly:trace_spans_total{engine="0",result="sent"} 5`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if plain := do(f, http.MethodGet, "/metrics", "").Body.String(); strings.Contains(plain, "trace_id") {
		t.Error("exemplars in the plain format, which has none")
	}
}

// TestTraceOfMany: a request of more jobs than have spans says how many have none.
func TestTraceOfMany(t *testing.T) {
	f, c := newTraced(t, Config{})
	post(t, f, "/v1/completions", `{"prompt":["`+strings.Repeat(`a","`, 99)+`a"],"max_tokens":1}`, new(any))
	all := c.Spans(t, 2+3*21)
	if len(all) != 2+3*21 || attribute(all[1], "prefillonly.jobs_without_spans") != "79" {
		t.Errorf("%d spans: %v", len(all), all[1])
	}
}

// TestUntraced: what has no spans is a request whose caller wants none, one without a key, and a probe.
func TestUntraced(t *testing.T) {
	keys, err := apikey.NewRing([]string{"k"}, "", apikey.IsolateNone)
	if err != nil {
		t.Fatal(err)
	}
	f, c := newTraced(t, Config{Keys: keys})
	const body = `{"prompt":"abc","max_tokens":1}`
	do(f, http.MethodPost, "/v1/completions", body)
	do(f, http.MethodPost, "/v1/completions", body, "Authorization", "Bearer k", "Traceparent", strings.TrimSuffix(callers, "1")+"0")
	do(f, http.MethodGet, "/health", "")
	do(f, http.MethodGet, "/metrics", "", "Authorization", "Bearer k")
	do(f, http.MethodPost, "/v1/completions", `{"prompt":"abc","max_tokens":-1}`, "Authorization", "Bearer k")
	all := c.Spans(t, 1)
	if s := all[0]; len(all) != 1 || attribute(s, "http.response.status_code") != "400" || attribute(s, "error.type") == "" || s.Status != nil {
		t.Errorf("%v", all)
	}
}

// BenchmarkTraced is BenchmarkHandler with spans, which a collector takes.
func BenchmarkTraced(b *testing.B) {
	c := tracingtest.Start(b)
	s := forgetful{clienttest.NewScheduler(nil)}
	f := newFrontendOn(b, Config{Tracer: newTracer(b, c.GRPC)}, client.Config{}, s)
	s.Deliver = f.pool.Deliver
	s.Deliver(welcome(1))
	b.ReportAllocs()
	for b.Loop() {
		if w := do(f, http.MethodPost, "/v1/completions", benchBody); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

// TestTraceOfAPipeline: what processors do between the passes has spans by stage, in the order of the request's way.
func TestTraceOfAPipeline(t *testing.T) {
	c := tracingtest.Start(t)
	n := newNetwork(t, Config{Tracer: newTracer(t, c.GRPC)})
	post(t, n.Frontend, "/v1/ocr", `{"model":"reader","image":"`+pictureOf(t, 160, 80)+`"}`, new(any))
	all := c.Spans(t, 12)
	var stages, request *tracepb.Span
	var kinds []string
	for _, s := range all {
		switch s.Name {
		case "llm_request":
			request = s
		case "stage":
			if stages != nil && s.StartTimeUnixNano < stages.EndTimeUnixNano {
				t.Errorf("%s begins before the one before it ends", attribute(s, "prefillonly.stage"))
			}
			stages = s
			kinds = append(kinds, attribute(s, "prefillonly.stage"))
			if string(s.ParentSpanId) != string(request.SpanId) || s.EndTimeUnixNano < s.StartTimeUnixNano || attribute(s, "prefillonly.time_in_queue") == "" {
				t.Errorf("%v", s)
			}
		}
	}
	if got := strings.Join(kinds, " "); len(all) != 12 || got != "pictures boxes crops crops" {
		t.Errorf("%d spans, stages %s; want 12 with pictures, boxes and twice crops", len(all), got)
	}
}
