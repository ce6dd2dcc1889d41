package relay

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/frontend/route"
)

// uploadPatience bounds the time between two pieces of an upload.
const uploadPatience = 60 * time.Second

// Batches hands requests to the process that keeps files and batches, at its socket. Uploads may take as long as they like while they
// go on.
func Batches(socket string, log *zap.Logger) Relay {
	batches := &process{name: "batches", socket: socket, keeps: "files and batches"}
	proxy := batches.proxy(log)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(proxy, w, r, uploadPatience)
	})
	return Relay{handler, []string{"/v1/files", "/v1/files/*", "/v1/batches", "/v1/batches/*"}, batchRoutes(), batches}
}

// batchRoutes are what is told of its paths.
func batchRoutes() []route.Route {
	refused := []int{400, 404, 408, 413, 500, 503}
	form := openapi.Schema{"type": "object", "required": []string{"input_file_id", "endpoint", "completion_window"}}
	return []route.Route{
		told(http.MethodPost, route.Tell("Keeps a file, which comes as multipart/form-data", refused, route.Object()).At("/v1/files")),
		told(http.MethodGet, route.Tell("The files", refused, route.Object()).At("/v1/files").With("after", "limit", "order", "purpose")),
		told(http.MethodGet, route.Tell("How a file is", refused, route.Object()).At("/v1/files/{file_id}")),
		told(http.MethodDelete, route.Tell("Deletes a file", refused, route.Object()).At("/v1/files/{file_id}")),
		told(http.MethodGet, route.Tell("What is in a file", refused, route.Bytes("application/octet-stream")).At("/v1/files/{file_id}/content")),
		told(http.MethodPost, route.Tell("Makes a batch of a file", refused, route.Object(), form).At("/v1/batches")),
		told(http.MethodGet, route.Tell("The batches", refused, route.Object()).At("/v1/batches").With("after", "limit")),
		told(http.MethodGet, route.Tell("How a batch is", refused, route.Object()).At("/v1/batches/{batch_id}")),
		told(http.MethodPost, route.Tell("Ends a batch", refused, route.Object()).At("/v1/batches/{batch_id}/cancel")),
	}
}
