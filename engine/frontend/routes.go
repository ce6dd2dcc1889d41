package frontend

import (
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api"
)

// open are the paths that need no API key, as probes do not hold secrets; watched are those that are served
// while the server drains.
var (
	open    = map[string]bool{"/health": true, "/ready": true, "/version": true}
	watched = map[string]bool{"/health": true, "/ping": true, "/ready": true, "/version": true, "/metrics": true, "/load": true}
)

func (f *Frontend) routes() http.Handler {
	router := chi.NewRouter()
	router.Use(middleware.GetHead) // some probes ask for headers alone
	get := func(path string, h func(*exchange, *http.Request)) { router.Get(path, unwrap(h)) }
	post := func(path string, h func(*exchange, *http.Request)) { router.Post(path, unwrap(h)) }
	post("/v1/completions", f.completions)
	post("/v1/completions/render", f.renderCompletions)
	post("/v1/chat/completions", f.chatCompletions)
	post("/v1/chat/completions/render", f.renderChat)
	get("/v1/models", f.listModels)
	get("/v1/models/*", f.getModel)
	post("/tokenize", f.tokenize)
	post("/detokenize", f.detokenize)
	get("/tokenizer_info", f.tokenizerInfo)
	if f.cfg.DevMode {
		post("/reset_prefix_cache", f.resetPrefixCache)
	}
	get("/ping", f.health)
	post("/ping", f.health)
	get("/health", f.health)
	get("/ready", f.ready)
	get("/version", f.version)
	get("/load", f.serverLoad)
	router.Method(http.MethodGet, "/metrics", f.metrics.handler)
	router.NotFound(unwrap(func(x *exchange, r *http.Request) {
		f.refuse(x, refuseStatus(http.StatusNotFound, api.TypeNotFound, "unknown_path", "%.200s is not served; see /v1/models, /v1/completions and /v1/chat/completions", r.URL.Path))
	}))
	router.MethodNotAllowed(unwrap(func(x *exchange, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if router.Match(chi.NewRouteContext(), method, r.URL.Path) {
				allowed = append(allowed, method)
			}
		}
		x.Header().Set("Allow", strings.Join(allowed, ", "))
		f.refuse(x, refuseStatus(http.StatusMethodNotAllowed, api.TypeInvalidRequest, "method_not_allowed", "%.20s %s is not served; use %s", r.Method, r.URL.Path, strings.Join(allowed, " or ")))
	}))
	return f.around(router)
}

// unwrap turns a handler of exchanges into one for the router, which passes the writer of around
// through.
func unwrap(h func(*exchange, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { h(w.(*exchange), r) }
}

// around gives every request its id, checks its key, survives its panics and logs it.
func (f *Frontend) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, id: requestID(r.Header.Get("X-Request-Id")), start: time.Now()}
		w.Header().Set("X-Request-Id", x.id)
		defer func() {
			if cause := recover(); cause != nil {
				f.survive(x, r, cause)
			}
			f.metrics.observe(x)
			f.logAccess(x, r)
			f.giveBack(x.memory)
		}()
		if f.cfg.CORS.Serve(x, r) {
			return
		}
		if refused := f.authorize(x, r); refused != nil {
			x.Header().Set("WWW-Authenticate", `Bearer realm="prefillonly"`)
			f.refuse(x, refused)
			return
		}
		if f.server.Draining() && !watched[r.URL.Path] {
			f.refuse(x, draining())
			return
		}
		next.ServeHTTP(x, r)
	})
}

// survive answers for a handler that panicked. If its answer had begun, the connection is cut, so
// that the client does not take it for whole.
func (f *Frontend) survive(x *exchange, r *http.Request, cause any) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	f.log.Error("panic in a handler", zap.Any("cause", cause), zap.String("request_id", x.id), zap.String("path", r.URL.Path), zap.ByteString("stack", debug.Stack()))
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	f.refuse(x, refuseStatus(http.StatusInternalServerError, api.TypeServer, "internal_error", "the request met a defect of the server; its log has the cause under request id %s", x.id))
}

// authorize asks for a key, and notes whose it is.
func (f *Frontend) authorize(x *exchange, r *http.Request) *refusal {
	if f.cfg.Keys.Empty() || open[r.URL.Path] {
		return nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return refuseStatus(http.StatusUnauthorized, api.TypeAuthentication, "missing_api_key", "this server asks for an API key; send the header Authorization: Bearer KEY")
	}
	owner, ok := f.cfg.Keys.Find(token)
	if !ok {
		return refuseStatus(http.StatusUnauthorized, api.TypeAuthentication, "invalid_api_key", "the API key is not one of this server's")
	}
	x.owner = owner
	return nil
}

// probes are asked many times a minute by whatever watches the server, itself included.
var probes = map[string]bool{"/health": true, "/ready": true, "/ping": true}

// logAccess writes the one line of a request; never text of a prompt or an answer.
func (f *Frontend) logAccess(x *exchange, r *http.Request) {
	if !f.cfg.AccessLog {
		return
	}
	level := zap.InfoLevel
	if probes[r.URL.Path] {
		level = zap.DebugLevel
	}
	entry := f.log.Check(level, "request")
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 13)
	fields = append(fields,
		zap.String("request_id", x.id), zap.String("method", r.Method), zap.String("path", r.URL.Path),
		zap.Int("status", x.status), milliseconds("total_ms", time.Since(x.start)))
	if x.jobs > 0 {
		fields = append(fields,
			zap.String("model", x.model), zap.Int("jobs", x.jobs), zap.Int("n_input", x.promptTokens),
			zap.Int("n_cached", x.cachedTokens), zap.Int("n_output", x.completionTokens),
			milliseconds("queue_ms", x.queued), milliseconds("exec_ms", x.running))
	}
	if x.refusedWith != "" {
		fields = append(fields, zap.String("error", x.refusedWith))
	}
	entry.Write(fields...)
}

func milliseconds(key string, d time.Duration) zap.Field {
	return zap.Float64(key, float64(d.Microseconds())/1000)
}
