// Package frontend is the HTTP shell over the pool's client: it routes requests by the model that they name, answers
// them in the words of OpenAI's API and of the Open Inference Protocol, and tells how the server is.
package frontend

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/metrics"
	"github.com/prefillonly/prefillonly/engine/speech"
	"github.com/prefillonly/prefillonly/internal/httpserve"
	"github.com/prefillonly/prefillonly/internal/tracing"
)

// Config is how the HTTP process is run. The zero value of a size means its default.
type Config struct {
	Name             string           // of this process among those that share its port
	Keys             *apikey.Ring     // any of them opens every path but those of admins; nil or empty: no key is asked for
	Version          string           // answered by /version
	DevMode          bool             // serve what changes the server for everybody: /reset_prefix_cache
	MaxBody          int64            // bytes of a request body; default 64 MiB
	MaxLogprobs      int              // log-probabilities that one request may ask for; default 2^24
	MaxTokenizers    int              // tokenizers that stay open while nobody uses them; default 16
	AccessLog        bool             // one line a request
	HTTP             httpserve.Config // bounds on connections and their times
	DefaultMaxTokens int              // most tokens of a chat answer whose request gives no bound; 0: the context
	Metrics          bool             // answers tell the times of their requests
	ToolParser       string           // how calls of tools are found in the words of an answer; empty: tool_choice auto is refused
	CORS             httpserve.CORS   // pages of other origins that may use the server
	// Socket is where this frontend tells its metrics to others on the same port, and Siblings the sockets
	// of all of them; empty where it is alone.
	Socket   string
	Siblings []string
	Tracer   *tracing.Tracer // sends the spans of requests; nil: they have none
	// Video is the socket of the process that keeps video streams, and Batches that of files and batches; empty where there
	// is none.
	Video   string
	Batches string
	// OpenSound opens sound that is not WAV; nil: none is opened.
	OpenSound func(ctx context.Context, file []byte) (speech.Sound, error)
}

func (c Config) withDefaults() Config {
	setDefault(&c.MaxBody, 64<<20)
	setDefault(&c.MaxLogprobs, 1<<24)
	setDefault(&c.MaxTokenizers, 16)
	c.HTTP.TurnAway = turnAway
	c.HTTP = c.HTTP.WithDefaults()
	return c
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Frontend serves models of a pool over HTTP. Its methods are safe for concurrent use.
type Frontend struct {
	cfg       Config
	log       *zap.Logger
	pool      *client.Client
	models    *registry.Registry
	metrics   *metrics.Metrics
	shared    *exchange.Shared
	prompts   *promptEndpoints
	tensors   *tensorEndpoints
	pipelines *pipelineEndpoints
	slots     *slotEndpoint
	relays    []relay
	server    *httpserve.Server
	started   time.Time

	described exchange.Encoded // /openapi.json
}

// New makes a Frontend of models, of which there is at least one, over a client of their pool. The client must run
// while it serves. The error names what is wrong with the models.
func New(cfg Config, served []registry.Model, pool *client.Client, log *zap.Logger) (*Frontend, error) {
	cfg = cfg.withDefaults()
	f := &Frontend{cfg: cfg, log: log, pool: pool, models: registry.New(cfg.MaxTokenizers, pool, log), started: time.Now()}
	if err := f.SetModels(served); err != nil {
		return nil, err
	}
	draining := func() bool { return f.server.Draining() }
	f.shared = exchange.NewShared(exchange.Config{MaxBody: cfg.MaxBody, BodyTimeout: cfg.HTTP.BodyTimeout, Draining: draining, Log: log})
	f.metrics = metrics.New(metrics.Config{Name: cfg.Name, Models: f.models.Names(), Socket: cfg.Socket, Siblings: cfg.Siblings, Spans: f.spanCounts(), Video: cfg.Video, Asker: f.watcherOf},
		pool, func() httpserve.Counts { return f.server.Connections() })
	texts := completion.Config{MaxLogprobs: cfg.MaxLogprobs, DefaultMaxTokens: cfg.DefaultMaxTokens, Metrics: cfg.Metrics, ToolParser: cfg.ToolParser}
	f.prompts = newPromptEndpoints(texts, cfg.Version, f.models, pool, f.metrics)
	f.tensors = newTensorEndpoints(inference.Config{MaxInputs: int(min(cfg.MaxBody, 64<<20))}, cfg.Version, f, cfg.Keys, f.models, pool, f.metrics)
	onDrain := func(end func()) (stop func() bool) { return f.server.OnDrain(end) }
	f.slots = newSlotEndpoint(onDrain)
	f.pipelines = newPipelineEndpoints(&cfg, f.models, pool)
	if cfg.Video != "" {
		f.relays = append(f.relays, newVideoRelay(cfg.Video, onDrain, log))
	}
	if cfg.Batches != "" {
		f.relays = append(f.relays, newBatchRelay(cfg.Batches, log))
	}
	f.shared.Reads(fieldsOf(f.routeTable()))
	f.server = httpserve.New(cfg.HTTP, f.wrapHandler(f.newRouter()), log)
	return f, nil
}

// SetModels puts others in the place of the models that are served. Requests on their way go on with theirs, but
// those of a model that is served no longer are refused.
func (f *Frontend) SetModels(served []registry.Model) error { return f.models.Set(served) }

// Handler serves every endpoint.
func (f *Frontend) Handler() http.Handler { return f.server }

// Serve answers requests on listener until ctx ends; then it refuses new requests, lets open ones
// finish for as long as HTTP.DrainTimeout, and answers the rest with a 503. It closes listener. After a
// drain it returns nil, or an error that counts the requests it cut off.
func (f *Frontend) Serve(ctx context.Context, listener net.Listener) error {
	silence, err := f.metrics.Tell()
	if err != nil {
		return err
	}
	defer silence()
	opening, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { f.models.OpenTexts(opening) }) // ends with opening
	err = f.server.Serve(ctx, listener)
	stop()
	group.Wait()
	return err
}

// turnAway is the answer to a connection beyond a bound.
func turnAway(b httpserve.Bound, limit int) (status int, contentType string, body []byte) {
	r := exchange.WithStatus(http.StatusServiceUnavailable, api.TypeServer, "too_many_connections", "the server has the %d connections open that it allows; come back later", limit)
	if b == httpserve.BoundAddress {
		r = exchange.WithStatus(http.StatusTooManyRequests, api.TypeRateLimit, "too_many_connections", "your address has the %d connections open that the server allows one; use fewer, or keep them open for more requests", limit)
	}
	body, _ = r.Body.MarshalJSON() // strings alone
	return r.Status, "application/json", body
}
