// Package pages serves what the server shows in a browser: its own page, and that of video streams.
package pages

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/board"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/route"
	"github.com/prefillonly/prefillonly/engine/videopage"
)

// Routes are the paths of the pages of a server of some version, whose figures read tells.
func Routes(read func() board.Reading, version string) []route.Route {
	b := &boardReader{read: read, version: version}
	home := route.Tell("The page of the server, by a redirect", route.OfAny, nil)
	home.Status = http.StatusFound
	html := func(about string) route.Operation { return route.Tell(about, route.OfAny, route.Texts("text/html")) }
	file := func() map[string]openapi.Schema { return route.Texts("text/javascript", "text/css") }
	return []route.Route{
		route.Get("/", goHome, home),
		route.Get("/ui", b.answerPage, html("The page of the server")),
		route.Get("/ui/now", b.answerNow, html("The part of it that changes")),
		route.Get("/ui/{file}", boardFile, route.Tell("A file of that page", route.OfModels, file())),
		route.Get("/video", videoPage, html("The page of video streams")),
		route.Get("/video/{file}", videoPage, route.Tell("A file of that page", route.OfModels, file())),
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
	setHeaders(x.Header())
	http.ServeFileFS(x, r, board.Files, name)
}

// videoPage answers with the page of video streams, or a file that it is made of.
func videoPage(x *exchange.Exchange, r *http.Request) {
	name := chi.URLParam(r, "file")
	if name == "" {
		name = "index.html"
	}
	if _, err := videopage.Files.Open(name); err != nil || name == "index.html" && r.URL.Path != "/video" {
		x.Refuse(exchange.UnknownPath(r.URL.Path))
		return
	}
	setHeaders(x.Header())
	http.ServeFileFS(x, r, videopage.Files, name)
}

// policy lets a page load nothing from elsewhere, and nobody frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // another version of the server has other files
}
