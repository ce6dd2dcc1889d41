package frontend

import (
	"embed"
	"io/fs"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/board"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

//go:embed videopage
var embedded embed.FS

// videoFiles are index.html of the page of video streams and what it refers to as /video/NAME.
var videoFiles, _ = fs.Sub(embedded, "videopage") // it fails for no directory that is embedded

// pageRoutes are the paths of the pages of a server of some version, whose figures read tells.
func pageRoutes(read func() board.Reading, version string) []route {
	b := &boardReader{read: read, version: version}
	home := describeOperation("The page of the server, by a redirect", ofAny, nil)
	home.Status = http.StatusFound
	html := func(about string) operation { return describeOperation(about, ofAny, textsOf("text/html")) }
	file := func() map[string]openapi.Schema { return textsOf("text/javascript", "text/css") }
	return []route{
		getRoute("/", goHome, home),
		getRoute("/ui", b.answerPage, html("The page of the server")),
		getRoute("/ui/now", b.answerNow, html("The part of it that changes")),
		getRoute("/ui/now.txt", b.answerText, describeOperation("Its figures as text, for terminals", ofAny, textsOf("text/plain"))),
		getRoute("/ui/{file}", boardFile, describeOperation("A file of that page", ofModels, file())),
		getRoute("/video", videoPage, html("The page of video streams")),
		getRoute("/video/{file}", videoPage, describeOperation("A file of that page", ofModels, file())),
	}
}

func goHome(x *exchange.Exchange, r *http.Request) { http.Redirect(x, r, "/ui", http.StatusFound) }

// boardFile answers with a file of the server's page.
func boardFile(x *exchange.Exchange, r *http.Request) {
	name := chi.URLParam(r, "file")
	if _, err := board.Files.Open(name); err != nil || name == "." {
		x.Refuse(exchange.UnknownPath(r.URL.Path))
		return
	}
	setPageHeaders(x.Header())
	http.ServeFileFS(x, r, board.Files, name)
}

// videoPage answers with the page of video streams, or a file that it is made of.
func videoPage(x *exchange.Exchange, r *http.Request) {
	name := chi.URLParam(r, "file")
	if name == "" {
		name = "index.html"
	}
	if _, err := videoFiles.Open(name); err != nil || name == "index.html" && r.URL.Path != "/video" {
		x.Refuse(exchange.UnknownPath(r.URL.Path))
		return
	}
	setPageHeaders(x.Header())
	http.ServeFileFS(x, r, videoFiles, name)
}

// pagePolicy lets a page load nothing from elsewhere, and nobody frame it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func setPageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // another version of the server has other files
}
