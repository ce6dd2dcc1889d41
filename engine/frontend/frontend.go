// Package frontend is the HTTP shell over the pool's client: it routes requests by the model that they name, answers
// them in the words of OpenAI's API and of the Open Inference Protocol, and tells how the server is.
package frontend

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/decision"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/metrics"
	"github.com/prefillonly/prefillonly/engine/scoring"
	"github.com/prefillonly/prefillonly/internal/cors"
	"github.com/prefillonly/prefillonly/internal/httpserve"
	"github.com/prefillonly/prefillonly/internal/opened"
	"github.com/prefillonly/prefillonly/internal/tracing"
	"github.com/prefillonly/prefillonly/internal/turns"
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
	CORS             cors.Config      // pages of other origins that may use the server
	// Socket is where this frontend tells its metrics to others on the same port, and Siblings the sockets
	// of all of them; empty where it is alone.
	Socket   string
	Siblings []string
	Tracer   *tracing.Tracer // sends the spans of requests; nil: they have none
	// Video is the socket of the process that keeps video streams, and Batches that of files and batches; empty where there
	// is none.
	Video   string
	Batches string
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
	// set once
	cfg         Config
	log         *zap.Logger
	pool        *client.Client
	completions *completion.Service
	scoring     *scoring.Service
	decisions   *decision.Service
	inference   *inference.Service
	texts       *opened.Cache[string, *Text]
	metrics     *metrics.Metrics
	server      *httpserve.Server
	video       http.Handler // nil where there is none
	batches     http.Handler // likewise
	prepare     *turns.Turns // of big bodies, from the decoding of their JSON to the tokens
	buffers     sync.Pool    // *[]byte, for bodies and answers
	started     time.Time
	boardReader boardReader

	models    atomic.Pointer[models]
	sets      atomic.Int64 // of models so far
	bodyBytes atomic.Int64 // memory held by big request bodies
	released  atomic.Int64 // bytes since memory was given back
}

// New makes a Frontend of models, of which there is at least one, over a client of their pool. The client must run
// while it serves. The error names what is wrong with the models.
func New(cfg Config, served []Model, pool *client.Client, log *zap.Logger) (*Frontend, error) {
	cfg = cfg.withDefaults()
	f := &Frontend{
		cfg: cfg, log: log, pool: pool,
		completions: completion.New(completion.Config{MaxLogprobs: cfg.MaxLogprobs, DefaultMaxTokens: cfg.DefaultMaxTokens, Metrics: cfg.Metrics, ToolParser: cfg.ToolParser}, pool),
		scoring:     scoring.New(pool),
		decisions:   decision.New(pool),
		inference:   inference.New(inference.Config{MaxInputs: int(min(cfg.MaxBody, 64<<20))}, pool),
		texts:       opened.New[string](cfg.MaxTokenizers, (*Text).close),
		prepare:     turns.New(max(1, runtime.GOMAXPROCS(0)/2), preparePace),
		started:     time.Now(),
	}
	f.buffers.New = func() any { return new([]byte) }
	if err := f.SetModels(served); err != nil {
		return nil, err
	}
	f.metrics = metrics.New(metrics.Config{Name: cfg.Name, Models: f.models.Load().names(), Socket: cfg.Socket, Siblings: cfg.Siblings, Spans: f.spanCounts(), Video: cfg.Video},
		pool, func() httpserve.Counts { return f.server.Connections() })
	if cfg.Video != "" {
		f.video = f.proxyVideo(cfg.Video)
	}
	if cfg.Batches != "" {
		f.batches = f.proxyBatches(cfg.Batches)
	}
	f.server = httpserve.New(cfg.HTTP, f.around(f.routes()), log)
	return f, nil
}

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
	group.Go(func() { f.openTexts(opening) }) // ends with opening
	err = f.server.Serve(ctx, listener)
	stop()
	group.Wait()
	return err
}

// State is what /health and /ready say.
func (f *Frontend) State() (healthy, ready bool) {
	return f.unhealthy() == "", f.readiness().Reason == ""
}
