// Package relay hands requests to processes beside the frontend: that of video streams, and that of files and batches.
package relay

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/frontend/route"
)

// Relay is a handler of several paths, all of which are those of one process.
type Relay struct {
	http.Handler
	Paths []string      // the router's patterns
	Told  []route.Route // what is told of them
}

// told is a route that the Relay's handler serves.
func told(method string, o route.Operation) route.Route {
	return route.Route{Method: method, Told: []route.Operation{o}}
}
