package tracing

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/prefillonly/prefillonly/internal/tracing/tracingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// story is one of plain spans.
type story []Span

func (s story) Count() int    { return len(s) }
func (s story) Spans() []Span { return s }

func oneSpan() story {
	now := time.Unix(1700000000, 0)
	return story{{Name: "one", Server: true, Begin: now, End: now.Add(time.Second), Attributes: []Attribute{Text("a", "b"), Int("n", -3), Float("f", 0.5)}}}
}

// read is Read with variables from a map.
func read(t *testing.T, endpoint string, env map[string]string) *Settings {
	t.Helper()
	s, err := Read(endpoint, func(name string) string { return env[name] }, Process{"prefillonly", "1.2", "frontend-0"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t *testing.T, s *Settings) (*Tracer, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	tracer, err := New(s, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	return tracer, logs
}

// ended is a context that has ended.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestSends(t *testing.T) {
	c := tracingtest.Start(t)
	for protocol, endpoint := range map[string]string{"grpc": c.GRPC, "http": c.HTTP} {
		tracer, _ := start(t, read(t, endpoint, map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret", "OTEL_BSP_SCHEDULE_DELAY": "10"}))
		before := len(c.Spans(t, 0))
		tracer.End(tracer.Begin(http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Tracestate": {"a=1", "b=2"}}), oneSpan())
		s := c.Spans(t, before+1)[before]
		if got := c.Header("authorization") + c.Header("Authorization"); !strings.HasSuffix(got, "Bearer secret") {
			t.Errorf("%s: authorization is %q", protocol, got)
		}
		if got := c.Resource("service.name") + c.Resource("service.version") + c.Resource("service.instance.id"); got != "prefillonly1.2frontend-0" {
			t.Errorf("%s: the resource is %q", protocol, got)
		}
		if s.Name != "one" || hexOf(s.TraceId) != "0af7651916cd43dd8448eb211c80319c" || hexOf(s.ParentSpanId) != "b7ad6b7169203331" || s.TraceState != "a=1,b=2" || s.Attributes[1].Value.GetIntValue() != -3 {
			t.Errorf("%s: %v", protocol, s)
		}
		tracer.Close(t.Context())
		if got := tracer.Counts(); got != (Counts{Sent: 1}) {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
}

// TestTextsOfClients: what a client wrote that is not UTF-8 costs no span.
func TestTextsOfClients(t *testing.T) {
	c := tracingtest.Start(t)
	tracer, _ := start(t, read(t, c.GRPC, nil))
	strange := oneSpan()
	strange[0].Name, strange[0].Failed = "GET /\xff", "\xc3"
	strange[0].Attributes[0] = Text("url.path", "/\xff")
	tracer.End(tracer.Begin(http.Header{}), strange)
	tracer.End(tracer.Begin(http.Header{}), oneSpan())
	tracer.Close(t.Context())
	all := c.Spans(t, 2)
	if s := all[0]; s.Name != "GET /\uFFFD" || s.Status.GetMessage() != "\uFFFD" || s.Attributes[0].Value.GetStringValue() != "/\uFFFD" {
		t.Errorf("%v", s)
	}
	if got := tracer.Counts(); got != (Counts{Sent: 2}) {
		t.Errorf("%+v", got)
	}
}

func hexOf(id []byte) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range id {
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

// TestContext: whose trace a request is of, by the headers that it brings; strange ones count as none.
func TestContext(t *testing.T) {
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for name, c := range map[string]struct {
		h       http.Header
		foreign bool // it is of the caller's trace
		sampled bool
		state   string
	}{
		"none":               {http.Header{}, false, true, ""},
		"sampled":            {http.Header{"Traceparent": {"00-" + id + "-" + parent + "-01"}, "Tracestate": {"k=v"}}, true, true, "k=v"},
		"not sampled":        {http.Header{"Traceparent": {"00-" + id + "-" + parent + "-00"}}, true, false, ""},
		"later version":      {http.Header{"Traceparent": {"01-" + id + "-" + parent + "-01-more"}}, true, true, ""},
		"bad version":        {http.Header{"Traceparent": {"ff-" + id + "-" + parent + "-01"}}, false, true, ""},
		"zero trace":         {http.Header{"Traceparent": {"00-00000000000000000000000000000000-" + parent + "-01"}}, false, true, ""},
		"zero span":          {http.Header{"Traceparent": {"00-" + id + "-0000000000000000-01"}}, false, true, ""},
		"upper case":         {http.Header{"Traceparent": {"00-" + strings.ToUpper(id) + "-" + parent + "-01"}}, false, true, ""},
		"twice":              {http.Header{"Traceparent": {"00-" + id + "-" + parent + "-00", "00-" + id + "-" + parent + "-00"}}, false, true, ""},
		"long":               {http.Header{"Traceparent": {"01-" + id + "-" + parent + "-00-" + strings.Repeat("x", 1<<20)}}, false, true, ""},
		"state without":      {http.Header{"Tracestate": {"k=v"}}, false, true, ""},
		"long state":         {http.Header{"Traceparent": {"00-" + id + "-" + parent + "-01"}, "Tracestate": {"k=" + strings.Repeat("v", 1<<20)}}, true, true, ""},
		"too many in state":  {http.Header{"Traceparent": {"00-" + id + "-" + parent + "-01"}, "Tracestate": {many(33)}}, true, true, ""},
		"a lot of headers":   {http.Header{"Traceparent": {"00-" + id + "-" + parent + "-01"}, "Tracestate": strings.Split(strings.Repeat("k=v ", 10000), " ")}, true, true, ""},
		"the most in state":  {http.Header{"Traceparent": {"00-" + id + "-" + parent + "-01"}, "Tracestate": {many(32)}}, true, true, many(32)},
		"state with newline": {http.Header{"Traceparent": {"00-" + id + "-" + parent + "-01"}, "Tracestate": {"k=v\nx"}}, true, true, ""},
	} {
		r := beginRequest(c.h, read(t, "localhost:4317", nil).sampler)
		if (r != nil) != c.sampled {
			t.Errorf("%s: sampled is %v", name, r != nil)
		}
		if r == nil {
			continue
		}
		if (r.TraceID() == id) != c.foreign || r.parent.IsValid() != c.foreign || r.state != c.state || r.SpanID() == parent || !r.span.IsValid() {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// many is a tracestate of n members.
func many(n int) string {
	var all []string
	for i := range n {
		all = append(all, string(rune('a'+i%26))+string(rune('a'+i/26))+"=1")
	}
	return strings.Join(all, ",")
}

func TestSamplers(t *testing.T) {
	const sampled, not = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	for name, want := range map[string][3]bool{ // without a context, with a sampled one, with one that is not
		"":                         {true, true, false},
		"always_on":                {true, true, true},
		"always_off":               {false, false, false},
		"traceidratio":             {false, false, false},
		"parentbased_always_on":    {true, true, false},
		"parentbased_always_off":   {false, true, false},
		"parentbased_traceidratio": {false, true, false},
	} {
		s := read(t, "localhost:4317", map[string]string{"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": "0"})
		for i, h := range []http.Header{{}, {"Traceparent": {sampled}}, {"Traceparent": {not}}} {
			if got := beginRequest(h, s.sampler) != nil; got != want[i] {
				t.Errorf("%s, %d: %v", name, i, got)
			}
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		flag, endpoint, traces, protocol string
		want, speaks                     string
		insecure                         bool
	}{
		{"http://a:4317", "", "", "", "http://a:4317", protocolGRPC, true},
		{"https://a:4317", "", "", "", "https://a:4317", protocolGRPC, false},
		{"a:4317", "", "", "", "grpc://a:4317", protocolGRPC, false},
		{"http://a:4318", "", "", "", "http://a:4318/v1/traces", protocolHTTP, true},
		{"https://a/otlp/v1/traces", "", "", "", "https://a/otlp/v1/traces", protocolHTTP, false},
		{"http://a:9", "", "", protocolHTTP, "http://a:9/v1/traces", protocolHTTP, true},
		{"", "http://b:4318", "", "", "http://b:4318/v1/traces", protocolHTTP, true},
		{"", "http://b/base/", "", "", "http://b/base/v1/traces", protocolHTTP, true},
		{"", "http://b:4318", "http://c:4317", "", "http://c:4317", protocolGRPC, true},
		{"http://a:4317", "http://b:4318", "http://c:4317", "", "http://a:4317", protocolGRPC, true},
	} {
		s := read(t, c.flag, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.traces, "OTEL_EXPORTER_OTLP_PROTOCOL": c.protocol})
		if s.endpoint.String() != c.want || s.protocol != c.speaks || s.insecure != c.insecure {
			t.Errorf("%+v: %v by %s, in the clear %v", c, s.endpoint, s.protocol, s.insecure)
		}
	}
	for _, env := range []map[string]string{{}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://b"}, {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://b"}} {
		if s := read(t, "", env); s != nil {
			t.Errorf("%v: %+v", env, s)
		}
	}
}

// TestMistakes: each names its variable, and none a secret.
func TestMistakes(t *testing.T) {
	for variable, values := range map[string][]string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"http://me:secret@host", "http://host?key=secret", "ftp://host", "http://", "http://[::1", "://"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":        {"http/json", "udp"},
		"OTEL_EXPORTER_OTLP_HEADERS":         {"secret", "a=%zzsecret", "a b=secret", "a=secret%0Ab"},
		"OTEL_TRACES_SAMPLER":                {"sometimes", "parentbased_sometimes"},
		"OTEL_BSP_MAX_QUEUE_SIZE":            {"0", "-1", "many", "99999999999"},
		"OTEL_EXPORTER_OTLP_TIMEOUT":         {"10s"},
	} {
		for _, value := range values {
			env := map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://host:4317", variable: value}
			_, err := Read("", func(name string) string { return env[name] }, Process{})
			if err == nil || !strings.Contains(err.Error(), variable) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s=%s: %v", variable, value, err)
			}
		}
	}
}

// TestCollectorRefuses: what cannot be sent is counted, and told without the key that the collector repeats.
func TestCollectorRefuses(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not your key: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}))
	defer refusing.Close()
	tracer, logs := start(t, read(t, refusing.URL+"/v1/traces", map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret"}))
	tracer.End(tracer.Begin(http.Header{}), oneSpan())
	tracer.Close(t.Context())
	if got := tracer.Counts(); got != (Counts{Failed: 1}) {
		t.Errorf("%+v", got)
	}
	told := logs.FilterMessageSnippet("spans were lost").All()
	if len(told) != 1 {
		t.Fatalf("%d lines: %v", len(told), logs.All())
	}
	if why, _ := told[0].ContextMap()["error"].(string); !strings.Contains(why, "401") || strings.Contains(why, "secret") {
		t.Errorf("the log says %q", why)
	}
}

// TestCollectorHangs: of one that takes connections and says nothing, nobody has to wait; what there is no room for is
// dropped, and counted.
func TestCollectorHangs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, endpoint := range []string{"http://" + listener.Addr().String(), "http://" + listener.Addr().String() + "/v1/traces"} {
		tracer, logs := start(t, read(t, endpoint, map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "100", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10"}))
		for range 1000 {
			tracer.End(tracer.Begin(http.Header{}), oneSpan())
		}
		if held := tracer.held.Load(); held > 100 {
			t.Errorf("%d spans are held", held)
		}
		if got := tracer.Counts(); got.Sent != 0 || got.Dropped < 900 {
			t.Errorf("%+v", got)
		}
		tracer.Close(endedContext())
		if got := tracer.Counts(); got.Sent != 0 || got.Dropped+got.Failed != 1000 {
			t.Errorf("%+v at the end", got)
		}
		if n := logs.FilterMessageSnippet("spans were lost").Len(); n < 1 || n > 2 {
			t.Errorf("%d lines", n)
		}
	}
}

// TestNobody: a Tracer that is not there does nothing.
func TestNobody(t *testing.T) {
	tracer, err := New(nil, zap.NewNop())
	if err != nil || tracer.Begin(http.Header{}) != nil {
		t.Error(tracer, err)
	}
	tracer.Close(t.Context())
}
