// Package tracing sends the spans of requests to an OpenTelemetry collector, by OTLP, and keeps nobody waiting for it: what it
// has no room for is dropped and counted.
//
// OpenTelemetry's exporters send the spans; its SDK does not make them. The SDK's spans are made while a request runs, and its processor
// drops without telling how many; here a request is kept as it ended (Story), and its spans are written as OTLP's bytes when a batch is sent,
// on no request's time. As messages of OTLP's generated types they took a quarter more processor time a request.
package tracing

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
)

// scope names what makes the spans.
const scope = "github.com/prefillonly/prefillonly"

// Story is what a request's spans are made of, once it has ended.
type Story interface {
	Count() int // of the spans
	Spans() []Span
}

// Counts are how many spans have been sent, were dropped since there was no room for them, or could not be sent.
type Counts struct{ Sent, Dropped, Failed uint64 }

// Tracer makes spans of requests and sends them. Its methods are safe for concurrent use; of a nil Tracer they do
// nothing.
type Tracer struct {
	// set once
	cfg      *Settings
	client   otlptrace.Client
	resource *resourcepb.Resource
	log      *zap.Logger
	queue    chan ended
	stop     context.CancelFunc // of exports
	stopping context.Context
	flush    chan struct{} // closed by Close
	done     chan struct{} // closed when run has ended

	once                  sync.Once
	held                  atomic.Int64 // spans in queue and in the export on its way
	sent, dropped, failed atomic.Uint64

	// owned by run
	encoding encoding
	told     Counts // when it was last logged
	toldAt   time.Time
	lastFail string
}

// ended is a request that has ended, with its spans yet to be made.
type ended struct {
	request *Request
	story   Story
	spans   int
}

// New makes a Tracer; nil of nil Settings. Close ends it. It does not wait for the collector, which need not be there.
func New(cfg *Settings, log *zap.Logger) (*Tracer, error) {
	if cfg == nil {
		return nil, nil
	}
	otel.SetLogger(logr.Discard()) // it would write headers that it cannot read
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	t := &Tracer{
		cfg: cfg, client: newClient(cfg), resource: encodeResource(cfg.resource), log: log,
		queue: make(chan ended, cfg.queue), flush: make(chan struct{}), done: make(chan struct{}),
	}
	t.stopping, t.stop = context.WithCancel(context.Background())
	if err := t.client.Start(t.stopping); err != nil {
		t.stop()
		return nil, cfg.exporterError("the exporter of traces", err)
	}
	log.Info("tracing", zap.String("endpoint", cfg.endpoint.Host), zap.String("protocol", cfg.protocol), zap.Bool("encrypted", !cfg.insecure))
	go t.sendSpans() // ended by Close
	return t, nil
}

// newClient is the exporter's connection; certificates, compression and the time of a try are read from
// the environment by it.
func newClient(cfg *Settings) otlptrace.Client {
	if cfg.protocol == protocolHTTP {
		options := []otlptracehttp.Option{otlptracehttp.WithEndpoint(cfg.endpoint.Host), otlptracehttp.WithURLPath(cfg.endpoint.Path), otlptracehttp.WithHeaders(cfg.headers)}
		if cfg.insecure {
			options = append(options, otlptracehttp.WithInsecure())
		}
		return otlptracehttp.NewClient(options...)
	}
	options := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(cfg.endpoint.Host), otlptracegrpc.WithHeaders(cfg.headers)}
	if cfg.insecure {
		options = append(options, otlptracegrpc.WithInsecure())
	}
	return otlptracegrpc.NewClient(options...)
}

// Begin finds the place of a request in its trace, by its headers; nil if it has no spans.
func (t *Tracer) Begin(h http.Header) *Request {
	if t == nil {
		return nil
	}
	return beginRequest(h, t.cfg.sampler)
}

// End sends the spans of a request that has ended, some time later. It does not wait: where there is no room they are
// dropped.
func (t *Tracer) End(r *Request, story Story) {
	n := story.Count()
	if t.held.Add(int64(n)) > int64(t.cfg.queue) {
		t.dropSpans(n)
		return
	}
	select {
	case t.queue <- ended{r, story, n}:
	default:
		t.dropSpans(n)
	}
}

func (t *Tracer) dropSpans(n int) {
	t.held.Add(-int64(n))
	t.dropped.Add(uint64(n))
}

// Counts are what has become of all spans so far.
func (t *Tracer) Counts() Counts {
	return Counts{Sent: t.sent.Load(), Dropped: t.dropped.Load(), Failed: t.failed.Load()}
}

// Close sends what is there, for no longer than ctx, and ends the tracer. Spans that come later are never sent.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.once.Do(func() { close(t.flush) })
	select {
	case <-t.done:
	case <-ctx.Done():
		t.stop()
		<-t.done
	}
	t.stop()
}

// sendSpans sends batches until Close.
func (t *Tracer) sendSpans() {
	defer close(t.done)
	timer := time.NewTicker(t.cfg.delay)
	defer timer.Stop()
	var batch []ended
	spans := 0
	send := func() {
		t.exportBatch(batch, spans)
		clear(batch)
		batch, spans = batch[:0], 0
	}
	take := func(e ended) {
		if spans > 0 && spans+e.spans > t.cfg.batch {
			send()
		}
		if batch, spans = append(batch, e), spans+e.spans; spans >= t.cfg.batch {
			send()
		}
	}
	for open := true; open; {
		select {
		case e := <-t.queue:
			take(e)
		case <-timer.C:
			send()
			t.logLost(time.Now())
		case <-t.flush:
			open = false
		}
	}
	for len(t.queue) > 0 {
		take(<-t.queue)
	}
	send()
	t.toldAt = time.Time{}
	t.logLost(time.Now())
	_ = t.client.Stop(t.stopping)
}

// exportBatch sends a batch.
func (t *Tracer) exportBatch(batch []ended, count int) {
	if count == 0 {
		return
	}
	defer t.held.Add(-int64(count))
	if t.stopping.Err() != nil {
		t.dropped.Add(uint64(count))
		return
	}
	for _, e := range batch {
		t.encoding.addSpans(e.request, e.story.Spans())
	}
	message := t.encoding.takeBatch(&tracepb.ResourceSpans{Resource: t.resource})
	ctx, cancel := context.WithTimeout(t.stopping, t.cfg.timeout)
	defer cancel()
	err := t.client.UploadTraces(ctx, []*tracepb.ResourceSpans{message})
	if err == nil {
		t.sent.Add(uint64(count))
		return
	}
	t.failed.Add(uint64(count))
	t.lastFail = t.cfg.redactError(err)
	t.logLost(time.Now())
}

// tellEvery is how often lost spans are logged at most.
const tellEvery = time.Minute

// logLost logs spans that were lost since it last did.
func (t *Tracer) logLost(now time.Time) {
	c := t.Counts()
	if c.Dropped == t.told.Dropped && c.Failed == t.told.Failed || now.Sub(t.toldAt) < tellEvery {
		return
	}
	t.log.Warn("spans were lost; requests are served all the same",
		zap.Uint64("dropped", c.Dropped-t.told.Dropped), zap.Uint64("failed", c.Failed-t.told.Failed), zap.String("endpoint", t.cfg.endpoint.Host), zap.String("error", t.lastFail))
	t.told, t.toldAt = c, now
}
