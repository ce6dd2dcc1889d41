package frontend

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api/openapi"
)

// uploadPatience bounds the time between two pieces of an upload.
const uploadPatience = 60 * time.Second

// newBatchRelay hands requests to the process that keeps files and batches, at its socket. Uploads may take as long as they like while they
// go on.
func newBatchRelay(socket string, log *zap.Logger) relay {
	batches := &process{name: "batches", socket: socket, keeps: "files and batches"}
	proxy := batches.newProxy(log)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serveRelayed(proxy, w, r, uploadPatience)
	})
	return relay{handler, []string{"/v1/files", "/v1/files/*", "/v1/batches", "/v1/batches/*"}, batchRoutes(), batches}
}

// batchRoutes are what is told of its paths.
func batchRoutes() []route {
	refused := []int{400, 404, 408, 413, 500, 503}
	form := openapi.Schema{"type": "object", "required": []string{"input_file_id", "endpoint", "completion_window"}}
	return []route{
		toldRoute(http.MethodPost, describeOperation("Keeps a file, which comes as multipart/form-data", refused, jsonObject()).At("/v1/files")),
		toldRoute(http.MethodGet, describeOperation("The files", refused, jsonObject()).At("/v1/files").With("after", "limit", "order", "purpose")),
		toldRoute(http.MethodGet, describeOperation("How a file is", refused, jsonObject()).At("/v1/files/{file_id}")),
		toldRoute(http.MethodDelete, describeOperation("Deletes a file", refused, jsonObject()).At("/v1/files/{file_id}")),
		toldRoute(http.MethodGet, describeOperation("What is in a file", refused, bytesOf("application/octet-stream")).At("/v1/files/{file_id}/content")),
		toldRoute(http.MethodPost, describeOperation("Makes a batch of a file", refused, jsonObject(), form).At("/v1/batches")),
		toldRoute(http.MethodGet, describeOperation("The batches", refused, jsonObject()).At("/v1/batches").With("after", "limit")),
		toldRoute(http.MethodGet, describeOperation("How a batch is", refused, jsonObject()).At("/v1/batches/{batch_id}")),
		toldRoute(http.MethodPost, describeOperation("Ends a batch", refused, jsonObject()).At("/v1/batches/{batch_id}/cancel")),
	}
}
