package frontend

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
)

// resetPrefixCache answers vLLM's /reset_prefix_cache. What running requests hold stays, and makes it a
// failure, as there.
func (f *Frontend) resetPrefixCache(x *exchange, r *http.Request) {
	done, err := f.pool.Reset(r.Context())
	if err != nil {
		f.refuse(x, refusalOf(r.Context(), err))
		return
	}
	f.writeJSON(x, http.StatusOK, api.CacheReset{Success: done.Held == 0, DroppedBlocks: done.Dropped, HeldBlocks: done.Held})
}
