package httpserve

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// CORS tells browsers which pages of other origins may use the server (the Fetch standard, section 3.3). "*" in a list stands for all.
type CORS struct {
	Origins     []string // such as https://app.example.com; empty: no other origin
	Methods     []string
	Headers     []string // of requests
	Credentials bool     // cookies and the like may be sent; then Origins are listed, not "*"
}

// exposed are the headers of answers that scripts may read beside those they always may.
const exposed = "X-Request-Id, Retry-After, Retry-After-Ms, Openai-Processing-Ms"

// maxAge is for how many seconds a browser may keep the answer to a preflight.
const maxAge = "600"

// Serve marks the answer to r, and answers r itself if it is a preflight, which it reports. A preflight
// has no credentials, so it comes before any check of them.
func (c *CORS) Serve(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || len(c.Origins) == 0 {
		return false
	}
	h := w.Header()
	allowed := c.allowOrigin(h, origin)
	method := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || method == "" {
		h.Set("Access-Control-Expose-Headers", exposed)
		return false
	}
	status, text := c.preflight(h, allowed, method, r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the browser may have left
	return true
}

func (c *CORS) allowOrigin(h http.Header, origin string) bool {
	if slices.Contains(c.Origins, "*") {
		h.Set("Access-Control-Allow-Origin", "*")
		return true
	}
	h.Add("Vary", "Origin")
	if !slices.Contains(c.Origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if c.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	return true
}

// preflight answers for a request of that method with those headers.
func (c *CORS) preflight(h http.Header, originAllowed bool, method, headers string) (status int, text string) {
	var refused []string
	if !originAllowed {
		refused = append(refused, "origin")
	}
	if !slices.Contains(c.Methods, "*") && !slices.Contains(c.Methods, method) {
		refused = append(refused, "method")
	}
	if !c.allowHeaders(headers) {
		refused = append(refused, "headers")
	}
	if len(refused) > 0 {
		return http.StatusBadRequest, "Disallowed CORS " + strings.Join(refused, ", ")
	}
	h.Set("Access-Control-Allow-Methods", method)
	if headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	h.Set("Access-Control-Max-Age", maxAge)
	return http.StatusOK, "OK"
}

// simple are the headers that the Fetch standard lets any page send, its forms of Content-Type aside.
var simple = []string{"Accept", "Accept-Language", "Content-Language", "Content-Type"}

func (c *CORS) allowHeaders(list string) bool {
	if slices.Contains(c.Headers, "*") {
		return true
	}
	for name := range strings.SplitSeq(list, ",") {
		name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))
		same := func(allowed string) bool { return textproto.CanonicalMIMEHeaderKey(allowed) == name }
		if name != "" && !slices.ContainsFunc(simple, same) && !slices.ContainsFunc(c.Headers, same) {
			return false
		}
	}
	return true
}
