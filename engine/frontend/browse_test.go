package frontend

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestVideoPage: each file that the page names is there, with its type, and nothing else.
func TestVideoPage(t *testing.T) {
	f, _ := newFrontend(t, Config{}, nil)
	page := do(f, http.MethodGet, "/video", "")
	if page.Code != 200 || !strings.Contains(page.Body.String(), "<title>Video streams") || !strings.Contains(page.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("the page: %d, %v, %.200s", page.Code, page.Header(), page.Body)
	}
	for name, kind := range map[string]string{"page.js": "text/javascript", "picture.js": "text/javascript", "chart.js": "text/javascript", "page.css": "text/css"} {
		if w := do(f, http.MethodGet, "/video/"+name, ""); w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %s", name, w.Code, w.Header().Get("Content-Type"))
		}
	}
	for _, path := range []string{"/video/absent.js", "/video/pages.go", "/video/index.html", "/video/..%2fpage.js", "/video/"} {
		if w := do(f, http.MethodGet, path, ""); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestKeysOfBrowsers: a browser's password is a key where the page asks, and nowhere else; pages of other origins change nothing with it.
func TestKeysOfBrowsers(t *testing.T) {
	f, _ := newFrontend(t, Config{Keys: ring(t, "one", "two")}, nil)
	for _, c := range []struct {
		method, path, password, site string
		status                       int
	}{
		{"GET", "/video", "", "none", 401}, {"GET", "/video", "three", "none", 401}, {"GET", "/video", "two", "none", 200},
		{"GET", "/video/page.js", "", "same-origin", 401}, {"GET", "/video/page.js", "one", "same-origin", 200},
		{"GET", "/v1/models", "one", "same-origin", 200}, {"GET", "/metrics", "one", "none", 401}, {"POST", "/v1/chat/completions", "one", "same-origin", 401},
		{"GET", "/", "", "none", 401}, {"GET", "/", "one", "none", 302}, {"GET", "/ui", "", "none", 401}, {"GET", "/ui", "one", "none", 200}, {"GET", "/ui/now", "", "same-origin", 401},
		{"GET", "/ui/now.txt", "", "none", 401}, {"GET", "/ui/now.txt", "one", "none", 200},
		{"POST", "/v1/completions", "", "same-origin", 401}, {"POST", "/v1/completions", "one", "same-origin", 400}, {"POST", "/v1/completions", "one", "cross-site", 403},
		{"POST", "/v1/ocr", "one", "same-origin", 400}, {"POST", "/v1/ocr", "one", "cross-site", 403},
		{"POST", "/v1/audio/transcriptions", "one", "same-origin", 400}, {"POST", "/v1/audio/transcriptions", "one", "same-site", 403},
		{"POST", "/v1/video/nothing", "one", "same-origin", 404}, {"POST", "/v1/video/nothing", "one", "cross-site", 403}, {"DELETE", "/v1/video/nothing", "one", "same-site", 403},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Sec-Fetch-Site", c.site)
		if c.password != "" {
			r.SetBasicAuth("", c.password)
		}
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%+v: %d %.300s", c, w.Code, w.Body)
		}
		asks := strings.Contains(strings.Join(w.Header().Values("Www-Authenticate"), " "), "Basic")
		if want := c.status == 401 && isBrowsed(c.method, c.path) && c.path != "/v1/completions"; asks != want { // programs ask that
			t.Errorf("%+v: a browser is asked for a password: %v", c, asks)
		}
	}
}
