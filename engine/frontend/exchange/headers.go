package exchange

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/engine/api"
)

// maxUser bounds the bytes of what a router calls a user.
const maxUser = 256

// User is the key of fairness and routing: a router's header goes before the body's field. Owners of keys have no user in common,
// whatever they name.
func (x *Exchange) User(h http.Header, named string) string {
	for _, name := range []string{"X-Llm-D-Inference-Fairness-Id", "X-Gateway-Inference-Fairness-Id", "X-User-Id"} {
		if id := h.Get(name); id != "" {
			named = id[:min(len(id), maxUser)]
			break
		}
	}
	return x.Owner.User(named)
}

// Deadline is the time to first token that a router promised; 0 if it did not.
func Deadline(h http.Header) (time.Duration, *Refusal) {
	for _, name := range []string{"X-Llm-D-Slo-Ttft-Ms", "X-Slo-Ttft-Ms"} {
		text := h.Get(name)
		if text == "" {
			continue
		}
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil || !(ms > 0 && ms < 1e12) {
			return 0, Invalid(api.Invalid(name, "header %s is %.40q; it must be a number of milliseconds above 0", name, text))
		}
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	return 0, nil
}
