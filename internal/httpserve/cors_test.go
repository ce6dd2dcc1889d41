package httpserve

import (
	"net/http/httptest"
	"testing"
)

// TestServe holds what browsers are told, header by header.
func TestServe(t *testing.T) {
	listed := CORS{Origins: []string{"https://a.example", "http://localhost:3000"}, Methods: []string{"GET", "POST"}, Headers: []string{"authorization", "X-Mine"}}
	anyone := CORS{Origins: []string{"*"}, Methods: []string{"*"}, Headers: []string{"*"}}
	trusted := listed
	trusted.Credentials = true
	for _, c := range []struct {
		name   string
		config CORS
		method string
		header map[string]string
		status int // 0: not answered
		want   map[string]string
	}{
		{"off", CORS{}, "OPTIONS", map[string]string{"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}, 0,
			map[string]string{"Access-Control-Allow-Origin": "", "Vary": ""}},
		{"no browser", listed, "POST", nil, 0, map[string]string{"Access-Control-Allow-Origin": "", "Vary": ""}},
		{"allowed", listed, "POST", map[string]string{"Origin": "https://a.example"}, 0,
			map[string]string{"Access-Control-Allow-Origin": "https://a.example", "Vary": "Origin", "Access-Control-Expose-Headers": exposed, "Access-Control-Allow-Credentials": ""}},
		{"other origin", listed, "POST", map[string]string{"Origin": "https://a.example.evil"}, 0,
			map[string]string{"Access-Control-Allow-Origin": "", "Vary": "Origin"}},
		{"anyone", anyone, "POST", map[string]string{"Origin": "null"}, 0, map[string]string{"Access-Control-Allow-Origin": "*", "Vary": ""}},
		{"credentials", trusted, "POST", map[string]string{"Origin": "http://localhost:3000"}, 0,
			map[string]string{"Access-Control-Allow-Origin": "http://localhost:3000", "Access-Control-Allow-Credentials": "true"}},
		{"preflight", listed, "OPTIONS", map[string]string{"Origin": "https://a.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "Authorization,content-type, x-mine"}, 200,
			map[string]string{"Access-Control-Allow-Origin": "https://a.example", "Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "Authorization,content-type, x-mine", "Access-Control-Max-Age": "600"}},
		{"preflight of anyone", anyone, "OPTIONS", map[string]string{"Origin": "https://b", "Access-Control-Request-Method": "DELETE", "Access-Control-Request-Headers": "x-stainless-os"}, 200,
			map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "DELETE", "Access-Control-Allow-Headers": "x-stainless-os"}},
		{"preflight of another origin", listed, "OPTIONS", map[string]string{"Origin": "https://b", "Access-Control-Request-Method": "POST"}, 400,
			map[string]string{"Access-Control-Allow-Origin": "", "Access-Control-Allow-Methods": ""}},
		{"preflight of another method", listed, "OPTIONS", map[string]string{"Origin": "https://a.example", "Access-Control-Request-Method": "PUT"}, 400, nil},
		{"preflight of another header", listed, "OPTIONS", map[string]string{"Origin": "https://a.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-other"}, 400, nil},
		{"OPTIONS that is no preflight", listed, "OPTIONS", map[string]string{"Origin": "https://a.example"}, 0, nil},
	} {
		r := httptest.NewRequest(c.method, "/v1/completions", nil)
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		if answered := c.config.Serve(w, r); answered != (c.status != 0) || answered && w.Code != c.status {
			t.Errorf("%s: answered %v with %d, want %d", c.name, answered, w.Code, c.status)
		}
		for name, want := range c.want {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got, want)
			}
		}
	}
}
