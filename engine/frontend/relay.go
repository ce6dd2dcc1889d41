package frontend

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// relay is a handler of several paths, all of which are those of one process.
type relay struct {
	http.Handler
	Paths []string // the router's patterns
	Told  []route  // what is told of them

	process *process
}

// process is one beside the frontend.
type process struct {
	name, socket string
	keeps        string // what it keeps, in words for errors
	listened     atomic.Bool
}

// Starting says what the server cannot do yet: the process has not listened at its socket since the Relay was made. It is empty from
// then on: a process that is started again makes its own paths wait, not the whole server.
func (r relay) Starting() string {
	p := r.process
	if p.listened.Load() {
		return ""
	}
	c, err := p.dialSocket(context.Background())
	if err != nil {
		return "the process that keeps " + p.keeps + " is starting"
	}
	_ = c.Close() // nothing was said
	p.listened.Store(true)
	return ""
}

func (p *process) dialSocket(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", p.socket)
}

// toldRoute is a route that the Relay's handler serves.
func toldRoute(method string, o operation) route {
	return route{Method: method, Told: []operation{o}}
}

// Headers that tell a process on whose behalf a request is made, and whether that is an admin. Whatever a client says there is written over.
const (
	ownerHeader = "X-Prefillonly-Owner"
	adminHeader = "X-Prefillonly-Admin"
)

// nameAsker says on whose behalf a request is made.
func nameAsker(h http.Header, owner apikey.Owner, admin bool) {
	h.Set(ownerHeader, owner.ID())
	h.Set(adminHeader, strconv.FormatBool(admin))
}

// watcherOf names who asks for the figures of video streams: where no key is an admin's, each may see all.
func (f *Frontend) watcherOf(r *http.Request) http.Header {
	owner, h := exchange.From(r.Context()).Owner, http.Header{}
	nameAsker(h, owner, owner.Admin() || !f.cfg.Keys.HasAdmin())
	return h
}

// dialTimeout bounds the dialling of a process.
const dialTimeout = 2 * time.Second

// newProxy hands requests to the process. Each has a connection of its own there, so that one whose client says more than is taken in holds
// up no other. No connection is kept for another request; with DisableKeepAlives the other side would hang up with a refusal that it gives
// before a body's end, and the refusal be lost.
func (p *process) newProxy(log *zap.Logger) *httputil.ReverseProxy {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dialSocket(ctx) }
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", p.name
			r.Out.Header.Del("Authorization") // it was looked at here
			owner := exchange.From(r.In.Context()).Owner
			nameAsker(r.Out.Header, owner, owner.Admin())
		},
		Transport: &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: -1},
		ErrorLog:  zap.NewStdLog(log.Named(p.name)),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			x := exchange.From(r.Context())
			x.ResponseWriter = w
			if r.Context().Err() != nil {
				x.Refuse(exchange.Ended(r.Context()))
				return
			}
			log.Warn("a process does not answer", zap.String("keeps", p.keeps), zap.String("request_id", x.ID), zap.Error(err))
			x.Refuse(exchange.Unavailable("the process that keeps %s does not answer, and is being started again; come back later", p.keeps))
		},
	}
}

// serveRelayed hands a request on, both ways at once. Each piece of its body may take patience, or with 0 what the server leaves it. Once the answer
// has ended nobody reads the body any more: the proxy goes on after that, and HTTP/2's body wakes only one of two readers when it ends.
func serveRelayed(proxy http.Handler, w http.ResponseWriter, r *http.Request, patience time.Duration) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // writers of tests cannot
	if r.Body != nil && r.Body != http.NoBody {
		b := &body{ReadCloser: r.Body, control: control, patience: patience}
		defer b.endReads()
		r.Body = b
	}
	proxy.ServeHTTP(w, r)
}

// body is a request's.
type body struct {
	io.ReadCloser
	control  *http.ResponseController
	patience time.Duration

	reading sync.Mutex // held while it is read
	mu      sync.Mutex
	whole   bool // guarded by mu; it was read to its end or an error, and the answer may take as long as it likes
	over    bool // guarded by mu; nothing more of it is wanted
}

func (b *body) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if !b.begin() {
		return 0, errAnswered
	}
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole = b.whole || err != nil
	return n, err
}

var errAnswered = errors.New("the request was answered before its end")

// begin says whether the body is still wanted, and gives its next piece its time.
func (b *body) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.patience > 0 && !b.whole && !b.over {
		_ = b.control.SetReadDeadline(time.Now().Add(b.patience)) // writers of tests cannot
	}
	return !b.over
}

// endReads returns when no read is under way, and none will be.
func (b *body) endReads() {
	b.mu.Lock()
	if b.over = true; !b.whole {
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // writers of tests cannot, and have their bodies at once
	}
	b.mu.Unlock()
	b.reading.Lock()
	defer b.reading.Unlock()
}
