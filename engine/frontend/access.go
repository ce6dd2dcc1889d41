package frontend

import (
	"net/http"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// openPaths are the paths that need no key, as probes do not hold secrets.
var openPaths = map[string]bool{"/health": true, "/ready": true, "/version": true, "/v2/health/live": true, "/v2/health/ready": true}

// isOpen says that a path needs no key.
func isOpen(path string) bool { return openPaths[path] }

// authorize finds whose key a request carries, or refuses it and says how a key is sent. Where the ring is empty, all requests are of
// the zero Owner.
func authorize(w http.ResponseWriter, r *http.Request, keys *apikey.Ring) (apikey.Owner, *exchange.Refusal) {
	owner, refused := ownerOf(r, keys)
	if refused != nil && refused.Status == http.StatusUnauthorized {
		addChallenge(w.Header(), r)
	}
	return owner, refused
}

func ownerOf(r *http.Request, keys *apikey.Ring) (owner apikey.Owner, refused *exchange.Refusal) {
	if keys.Empty() || isOpen(r.URL.Path) {
		return owner, nil
	}
	token, refused := keyOf(r)
	switch {
	case refused != nil:
		return owner, refused
	case token == "":
		return owner, exchange.WithStatus(http.StatusUnauthorized, api.TypeAuthentication, "missing_api_key", "this server asks for an API key; send the header Authorization: Bearer KEY")
	}
	owner, ok := keys.Find(token)
	if !ok {
		return owner, exchange.WithStatus(http.StatusUnauthorized, api.TypeAuthentication, "invalid_api_key", "the API key is not one of this server's")
	}
	return owner, nil
}

// refuseUnlessAdmin refuses an owner who may not load and unload models.
func refuseUnlessAdmin(owner apikey.Owner, keys *apikey.Ring) *exchange.Refusal {
	switch {
	case owner.Admin():
		return nil
	case !keys.HasAdmin():
		return exchange.WithStatus(http.StatusForbidden, api.TypePermission, "admin_key_required", "loading and unloading models takes an admin's API key, and this server has none; write @admin behind a key in the file of --api-key-file, start the server again, and send that key")
	}
	return exchange.WithStatus(http.StatusForbidden, api.TypePermission, "admin_key_required", "loading and unloading models takes an admin's API key, which this one is not; send a key that has @admin behind it in the server's key file")
}

// isBrowsed says that a path is one that the pages of the server and of video streams ask for. A browser cannot send a bearer's token with pages, pictures
// and events, so the key may come as the password of HTTP Basic there.
func isBrowsed(method, path string) bool {
	switch path {
	case "/", "/ui", "/video":
		return true
	case "/v1/models":
		return method == http.MethodGet
	}
	return triedPaths[path] || strings.HasPrefix(path, "/ui/") || strings.HasPrefix(path, "/video/") || strings.HasPrefix(path, "/v1/video/")
}

// triedPaths are what the page of the server asks by hand. Who asks them without a key is not asked for a password: most are programs.
var triedPaths = map[string]bool{"/v1/completions": true, "/v1/score": true, "/v1/embeddings": true, "/v1/ocr": true, "/v1/audio/transcriptions": true}

// addChallenge says how a key is sent.
func addChallenge(h http.Header, r *http.Request) {
	h.Set("WWW-Authenticate", `Bearer realm="prefillonly"`)
	if isBrowsed(r.Method, r.URL.Path) && !triedPaths[r.URL.Path] {
		h.Add("WWW-Authenticate", `Basic realm="prefillonly", charset="UTF-8"`)
	}
}

// keyOf is the key that a request carries; empty if it has none. A browser sends a password that it keeps with whatever any page asks, so
// pages of other origins may change nothing with it.
func keyOf(r *http.Request) (string, *exchange.Refusal) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return token, nil
	}
	_, password, ok := r.BasicAuth()
	if !ok || !isBrowsed(r.Method, r.URL.Path) {
		return "", nil
	}
	var origins http.CrossOriginProtection
	if origins.Check(r) != nil {
		return "", exchange.WithStatus(http.StatusForbidden, api.TypePermission, "cross_origin", "a page of another origin may not use the key that the browser keeps for this server")
	}
	return password, nil
}
