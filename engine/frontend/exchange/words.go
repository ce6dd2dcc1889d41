package exchange

import (
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/oip"
)

// Words put an error of OpenAI's API, under its status, into the words of another.
type Words func(status int, e *api.Error) (int, any)

// WordsOf are those in which requests to a path are refused before a handler knows more.
func WordsOf(path string) Words {
	if dialect, ok := dialects[path]; ok {
		return dialect.Error
	}
	if isV2(path) {
		return func(status int, e *api.Error) (int, any) { return status, oip.Error{Message: e.Message} }
	}
	return pooling.OpenAI.Error
}

// isV2 says whether a path is the Open Inference Protocol's.
func isV2(path string) bool { return path == "/v2" || strings.HasPrefix(path, "/v2/") }

// dialects are those of the endpoints of scoring, as far as their paths tell.
var dialects = func() map[string]pooling.Dialect {
	of := map[string]pooling.Dialect{}
	for _, e := range pooling.Endpoints() {
		of[e.Path] = e.Errors(nil)
	}
	for _, path := range []string{"/info", "/decode"} {
		of[path] = pooling.TEI
	}
	return of
}()
