package frontend

import (
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// watched are the paths that are served while the server drains.
var watched = map[string]bool{
	"/health": true, "/ping": true, "/ready": true, "/version": true, "/metrics": true, "/load": true, "/v2/health/live": true, "/v2/health/ready": true,
}

func (f *Frontend) newRouter() http.Handler {
	router := chi.NewRouter()
	router.Use(middleware.GetHead) // some probes ask for headers alone
	for _, r := range f.routeTable() {
		router.Method(r.Method, r.Pattern, r.Serve)
	}
	for _, relayed := range f.relays {
		for _, path := range relayed.Paths {
			router.Handle(path, relayed)
		}
	}
	router.NotFound(exchange.Handle(func(x *exchange.Exchange, r *http.Request) { x.Refuse(exchange.UnknownPath(r.URL.Path)) }))
	router.MethodNotAllowed(exchange.Handle(func(x *exchange.Exchange, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if router.Match(chi.NewRouteContext(), method, r.URL.Path) {
				allowed = append(allowed, method)
			}
		}
		x.Header().Set("Allow", strings.Join(allowed, ", "))
		x.Refuse(exchange.WithStatus(http.StatusMethodNotAllowed, api.TypeInvalidRequest, "method_not_allowed", "%.20s %s is not served; use %s", r.Method, r.URL.Path, strings.Join(allowed, " or ")))
	}))
	return router
}

// wrapHandler gives every request its id, checks its key, survives its panics and logs it.
func (f *Frontend) wrapHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, w, r := f.shared.Begin(w, r)
		defer func() {
			if cause := recover(); cause != nil {
				f.answerPanic(x, w, r, cause)
			}
			x.End()
			f.observeExchange(x)
			f.logAccess(x, r)
			f.endTrace(x, r)
		}()
		if f.cfg.CORS.Serve(w, r) {
			return
		}
		if refused := f.authorizeRequest(x, w, r); refused != nil {
			x.Refuse(refused)
			return
		}
		f.beginTrace(x, r)
		if f.server.Draining() && !watched[r.URL.Path] {
			x.Refuse(exchange.Draining())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answerPanic answers for a handler that panicked. If its answer had begun, the connection is cut, so
// that the client does not take it for whole.
func (f *Frontend) answerPanic(x *exchange.Exchange, w http.ResponseWriter, r *http.Request, cause any) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	f.log.Error("panic in a handler", zap.Any("cause", cause), zap.String("request_id", x.ID), zap.String("path", r.URL.Path), zap.ByteString("stack", debug.Stack()))
	if x.Status() != 0 {
		panic(http.ErrAbortHandler)
	}
	x.ResponseWriter = w // middleware is past
	x.Refuse(exchange.WithStatus(http.StatusInternalServerError, api.TypeServer, "internal_error", "the request met a defect of the server; its log has the cause under request id %s", x.ID))
}

// authorizeRequest asks for a key, and notes whose it is. What comes by Ask is its owner's.
func (f *Frontend) authorizeRequest(x *exchange.Exchange, w http.ResponseWriter, r *http.Request) *exchange.Refusal {
	if owner, inside := r.Context().Value(insider{}).(apikey.Owner); inside {
		x.Owner = owner
		return nil
	}
	owner, refused := authorize(w, r, f.cfg.Keys)
	if refused == nil {
		x.Owner = owner
	}
	return refused
}
