// Package frontend is the HTTP process: it decodes OpenAI requests, tokenizes them, gives their jobs to
// the pool's client, and answers.
package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/internal/cors"
	"github.com/prefillonly/prefillonly/internal/httpserve"
	"github.com/prefillonly/prefillonly/internal/turns"
)

// tokenizer turns text into tokens and back. It is safe for concurrent use.
type tokenizer interface {
	Encode(ctx context.Context, salt, text string, addSpecial bool) ([]engine.TokenID, error)
	Decode(ids []engine.TokenID, skipSpecial bool) (string, error)
	BytesPerToken() int                  // a text of more bytes than n times as many does not fit into n tokens
	TokenBytes(id engine.TokenID) []byte // what the token adds to a text; may be part of a character
	VocabSize() int
	EOS() []engine.TokenID // tokens that end an answer
}

// template renders the model's chat template over a JSON list of messages. A model without one
// answers every call with an error that says so.
type template interface {
	RenderChat(messages []byte, options ChatOptions) (string, error)
	TokenizerInfo() map[string]json.RawMessage // the tokenizer's configuration, with special tokens and template
}

// ChatOptions are the variables of a chat template beside the messages.
type ChatOptions struct {
	AddGenerationPrompt  bool
	ContinueFinalMessage bool                       // end with the last message's text
	Variables            map[string]json.RawMessage // chat_template_kwargs
}

// Config is how the HTTP process is run. The zero value of a duration or a size means its default.
type Config struct {
	Name             string           // of this process to the scheduler, kept over restarts; default "frontend"
	Models           []string         // names the model is served under; the first is the executors' name for it
	Keys             *apikey.Ring     // any of them opens every path; nil or empty: no key is asked for
	Version          string           // answered by /version
	DevMode          bool             // serve what changes the server for everybody: /reset_prefix_cache
	MaxBody          int64            // bytes of a request body; default 64 MiB
	MaxJobs          int              // open jobs; beyond it requests get 429; default 65536
	MaxLogprobs      int              // log-probabilities that one request may ask for; default 2^24
	AccessLog        bool             // one line a request
	Heartbeat        time.Duration    // between two Hellos to the scheduler; default 1 s
	AwayTimeout      time.Duration    // how long the scheduler may be silent before requests are refused; default 60 s
	HTTP             httpserve.Config // bounds on connections and their times
	DefaultMaxTokens int              // most tokens of a chat answer whose request gives no bound; 0: the context
	CORS             cors.Config      // pages of other origins that may use the server
	// Socket is where this frontend tells its metrics to others on the same port, and Siblings the sockets
	// of all of them; empty where it is alone.
	Socket   string
	Siblings []string
	// Pulse hears at each heartbeat that the frontend works, and what /health and /ready say; may be nil.
	Pulse func(healthy, ready bool)
}

func (c Config) withDefaults() Config {
	setDefault(&c.Name, "frontend")
	setDefault(&c.Heartbeat, time.Second)
	setDefault(&c.MaxBody, 64<<20)
	setDefault(&c.MaxJobs, 65536)
	setDefault(&c.MaxLogprobs, 1<<24)
	setDefault(&c.AwayTimeout, 60*time.Second)
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

// Frontend serves one model over HTTP. Its methods are safe for concurrent use.
type Frontend struct {
	// set once
	cfg     Config
	tok     tokenizer
	chat    template
	log     *zap.Logger
	eos     []engine.TokenID
	pool    *client.Client
	metrics *metrics
	server  *httpserve.Server
	prepare *turns.Turns // of big bodies, from the decoding of their JSON to the tokens
	buffers sync.Pool    // *[]byte, for bodies and answers
	started time.Time

	bodyBytes atomic.Int64 // memory held by big request bodies
	logprobs  logprobsHeld
	released  atomic.Int64 // bytes since memory was given back
}

// New makes a Frontend on a connection to the scheduler.
func New(cfg Config, tok tokenizer, chat template, conn client.Conn, log *zap.Logger) (*Frontend, error) {
	if len(cfg.Models) == 0 || cfg.Models[0] == "" {
		return nil, errors.New("frontend: no served model name is given")
	}
	cfg = cfg.withDefaults()
	f := &Frontend{
		cfg: cfg, tok: tok, chat: chat, log: log, eos: tok.EOS(),
		prepare: turns.New(max(1, runtime.GOMAXPROCS(0)/2), preparePace),
		started: time.Now(),
	}
	f.buffers.New = func() any { return new([]byte) }
	f.logprobs.limit = logprobsBudget * int64(cfg.MaxLogprobs)
	f.pool = client.New(f.poolConfig(), conn, log)
	f.metrics = newMetrics(cfg, f.pool, func() httpserve.Counts { return f.server.Connections() })
	f.server = httpserve.New(cfg.HTTP, f.routes(), log)
	return f, nil
}

func (f *Frontend) poolConfig() client.Config {
	c := client.Config{Name: f.cfg.Name, Model: f.cfg.Models[0], MaxJobs: f.cfg.MaxJobs, Heartbeat: f.cfg.Heartbeat, AwayTimeout: f.cfg.AwayTimeout}
	if f.cfg.Pulse != nil {
		c.Pulse = func() { f.cfg.Pulse(f.unhealthy() == "", f.unready() == "") }
	}
	return c
}

// Handler serves every endpoint.
func (f *Frontend) Handler() http.Handler { return f.server }

// Serve answers requests on listener until ctx ends; then it refuses new requests, lets open ones
// finish for as long as HTTP.DrainTimeout, and answers the rest with a 503. It closes listener. After a
// drain it returns nil, or an error that counts the requests it cut off; when the connection to the
// scheduler breaks for good, it drains and returns an error too.
func (f *Frontend) Serve(ctx context.Context, listener net.Listener) error {
	silence, err := f.tellSiblings()
	if err != nil {
		return err
	}
	defer silence()
	following, unfollow := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { // ends with following
		unfollow(f.pool.Run(following))
		stop()
	})
	err = f.server.Serve(ctx, listener)
	unfollow(nil)
	group.Wait()
	if cause := context.Cause(following); !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("connection to the scheduler: %w", cause)
	}
	return err
}
