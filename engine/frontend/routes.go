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
)

// open are the paths that need no API key, as probes do not hold secrets; watched are those that are served
// while the server drains.
var (
	open    = map[string]bool{"/health": true, "/ready": true, "/version": true, "/v2/health/live": true, "/v2/health/ready": true}
	watched = map[string]bool{
		"/health": true, "/ping": true, "/ready": true, "/version": true, "/metrics": true, "/load": true, "/v2/health/live": true, "/v2/health/ready": true,
	}
)

func (f *Frontend) routes() http.Handler {
	router := chi.NewRouter()
	router.Use(middleware.GetHead) // some probes ask for headers alone
	for _, r := range f.table() {
		router.Method(r.method, r.pattern, r.serve)
	}
	if f.video != nil {
		router.Handle(videoPaths, f.video)
	}
	if f.batches != nil {
		for _, path := range batchPaths {
			router.Handle(path, f.batches)
		}
	}
	router.NotFound(handle(func(x *exchange, r *http.Request) { f.refuse(x, unknownPath(r.URL.Path)) }))
	router.MethodNotAllowed(handle(func(x *exchange, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if router.Match(chi.NewRouteContext(), method, r.URL.Path) {
				allowed = append(allowed, method)
			}
		}
		x.Header().Set("Allow", strings.Join(allowed, ", "))
		f.refuse(x, refuseStatus(http.StatusMethodNotAllowed, api.TypeInvalidRequest, "method_not_allowed", "%.20s %s is not served; use %s", r.Method, r.URL.Path, strings.Join(allowed, " or ")))
	}))
	return router
}

// around gives every request its id, checks its key, survives its panics and logs it.
func (f *Frontend) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, w, r := begin(w, r)
		w.Header().Set("X-Request-Id", x.id)
		defer func() {
			if cause := recover(); cause != nil {
				f.survive(x, w, r, cause)
			}
			x.end()
			f.observe(x)
			f.logAccess(x, r)
			f.endTrace(x, r)
			f.giveBack(x.memory)
		}()
		if f.cfg.CORS.Serve(w, r) {
			return
		}
		if refused := f.authorize(x, r); refused != nil {
			if refused.status == http.StatusUnauthorized {
				challenge(w.Header(), r)
			}
			f.refuse(x, refused)
			return
		}
		f.trace(x, r)
		if f.server.Draining() && !watched[r.URL.Path] {
			f.refuse(x, draining())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// survive answers for a handler that panicked. If its answer had begun, the connection is cut, so
// that the client does not take it for whole.
func (f *Frontend) survive(x *exchange, w http.ResponseWriter, r *http.Request, cause any) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	f.log.Error("panic in a handler", zap.Any("cause", cause), zap.String("request_id", x.id), zap.String("path", r.URL.Path), zap.ByteString("stack", debug.Stack()))
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	x.ResponseWriter = w // middleware is past
	f.refuse(x, refuseStatus(http.StatusInternalServerError, api.TypeServer, "internal_error", "the request met a defect of the server; its log has the cause under request id %s", x.id))
}

// authorize asks for a key, and notes whose it is. What comes by Ask is its owner's.
func (f *Frontend) authorize(x *exchange, r *http.Request) *refusal {
	if owner, inside := r.Context().Value(insider{}).(apikey.Owner); inside {
		x.owner = owner
		return nil
	}
	if f.cfg.Keys.Empty() || open[r.URL.Path] {
		return nil
	}
	token, refused := keyOf(r)
	switch {
	case refused != nil:
		return refused
	case token == "":
		return refuseStatus(http.StatusUnauthorized, api.TypeAuthentication, "missing_api_key", "this server asks for an API key; send the header Authorization: Bearer KEY")
	}
	owner, ok := f.cfg.Keys.Find(token)
	if !ok {
		return refuseStatus(http.StatusUnauthorized, api.TypeAuthentication, "invalid_api_key", "the API key is not one of this server's")
	}
	x.owner = owner
	return nil
}

// authorizeAdmin asks that the key be an admin's.
func (f *Frontend) authorizeAdmin(x *exchange) *refusal {
	switch {
	case x.owner.Admin():
		return nil
	case !f.cfg.Keys.HasAdmin():
		return refuseStatus(http.StatusForbidden, api.TypePermission, "admin_key_required", "loading and unloading models takes an admin's API key, and this server has none; write @admin behind a key in the file of --api-key-file, start the server again, and send that key")
	}
	return refuseStatus(http.StatusForbidden, api.TypePermission, "admin_key_required", "loading and unloading models takes an admin's API key, which this one is not; send a key that has @admin behind it in the server's key file")
}
