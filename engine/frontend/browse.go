package frontend

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/videopage"
)

// browsed says that a path is one that the pages of the server and of video streams ask for. A browser cannot send a bearer's token with pages, pictures
// and events, so the key may come as the password of HTTP Basic there.
func browsed(r *http.Request) bool { return browsedPath(r.Method, r.URL.Path) }

func browsedPath(method, path string) bool {
	switch path {
	case "/", "/ui", "/video":
		return true
	case "/v1/models":
		return method == http.MethodGet
	}
	return tried[path] || strings.HasPrefix(path, "/ui/") || strings.HasPrefix(path, "/video/") || strings.HasPrefix(path, "/v1/video/")
}

// tried are what the page of the server asks by hand. Who asks them without a key is not asked for a password: most are programs.
var tried = map[string]bool{"/v1/completions": true, "/v1/score": true, "/v1/embeddings": true}

// challenge says how a key is sent.
func challenge(h http.Header, r *http.Request) {
	h.Set("WWW-Authenticate", `Bearer realm="prefillonly"`)
	if browsed(r) && !tried[r.URL.Path] {
		h.Add("WWW-Authenticate", `Basic realm="prefillonly", charset="UTF-8"`)
	}
}

// keyOf is the key that a request carries; empty if it has none. A browser sends a password that it keeps with whatever any page asks, so
// pages of other origins may change nothing with it.
func keyOf(r *http.Request) (string, *refusal) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return token, nil
	}
	_, password, ok := r.BasicAuth()
	if !ok || !browsed(r) {
		return "", nil
	}
	var origins http.CrossOriginProtection
	if origins.Check(r) != nil {
		return "", refuseStatus(http.StatusForbidden, api.TypePermission, "cross_origin", "a page of another origin may not use the key that the browser keeps for this server")
	}
	return password, nil
}

// pagePolicy lets the page load nothing from elsewhere, and nobody frame it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// videoPage answers with the page of video streams, or a file that it is made of.
func (f *Frontend) videoPage(x *exchange, r *http.Request) {
	name := chi.URLParam(r, "file")
	if name == "" {
		name = "index.html"
	}
	if _, err := videopage.Files.Open(name); err != nil || name == "index.html" && r.URL.Path != "/video" {
		f.refuse(x, unknownPath(r.URL.Path))
		return
	}
	pageHeaders(x.Header())
	http.ServeFileFS(x, r, videopage.Files, name)
}

func pageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // another version of the server has other files
}
