// Package tracingtest is a collector of spans for tests, which speaks OTLP by gRPC and by HTTP.
package tracingtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Collector keeps the spans that it was sent.
type Collector struct {
	collectorpb.UnimplementedTraceServiceServer

	GRPC, HTTP string // where it listens, as endpoints

	mu       sync.Mutex
	spans    []*tracepb.Span   // guarded by mu
	resource map[string]string // of the last ones; guarded by mu
	headers  map[string]string // of the last request; guarded by mu
}

// Start starts a Collector, which ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	byGRPC := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(byGRPC, c)
	var group sync.WaitGroup
	group.Go(func() { _ = byGRPC.Serve(listener) }) // ended below
	byHTTP := httptest.NewServer(http.HandlerFunc(c.serveExport))
	t.Cleanup(func() {
		byGRPC.Stop()
		byHTTP.Close()
		group.Wait()
	})
	c.GRPC, c.HTTP = "http://"+listener.Addr().String(), byHTTP.URL+"/v1/traces"
	return c
}

// Export implements the service of OTLP.
func (c *Collector) Export(ctx context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	headers := map[string]string{}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		headers[name] = values[0]
	}
	c.keepSpans(r, headers)
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func (c *Collector) serveExport(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collectorpb.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
		http.Error(w, "no export of traces", http.StatusBadRequest)
		return
	}
	headers := map[string]string{}
	for name := range r.Header {
		headers[http.CanonicalHeaderKey(name)] = r.Header.Get(name)
	}
	c.keepSpans(request, headers)
}

func (c *Collector) keepSpans(r *collectorpb.ExportTraceServiceRequest, headers map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = headers
	for _, of := range r.ResourceSpans {
		c.resource = Texts(of.Resource.GetAttributes())
		for _, in := range of.ScopeSpans {
			c.spans = append(c.spans, in.Spans...)
		}
	}
}

// Texts are attributes that are texts.
func Texts(pairs []*commonpb.KeyValue) map[string]string {
	all := map[string]string{}
	for _, p := range pairs {
		all[p.Key] = p.Value.GetStringValue()
	}
	return all
}

// Header is a header of the last request.
func (c *Collector) Header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers[name]
}

// Resource is an attribute of what sent the last spans.
func (c *Collector) Resource(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource[name]
}

// Spans waits until there are so many, and returns all.
func (c *Collector) Spans(t testing.TB, count int) []*tracepb.Span {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		got := append([]*tracepb.Span(nil), c.spans...)
		c.mu.Unlock()
		if len(got) >= count {
			return got
		}
		if time.Now().After(limit) {
			t.Fatalf("%d spans after a minute, want %d: %v", len(got), count, got)
		}
	}
}
