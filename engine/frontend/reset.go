package frontend

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// resetPrefixCache answers vLLM's /reset_prefix_cache. What running requests hold stays, and makes it a
// failure, as there.
func (f *Frontend) resetPrefixCache(x *exchange.Exchange, r *http.Request) {
	done, err := f.pool.Reset(r.Context())
	if err != nil {
		x.Refuse(exchange.RefusalOf(r.Context(), err))
		return
	}
	x.WriteJSON(http.StatusOK, api.CacheReset{Success: done.Held == 0, DroppedBlocks: done.Dropped, HeldBlocks: done.Held})
}
