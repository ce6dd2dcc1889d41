package merge

import (
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/local"
	"github.com/prefillonly/prefillonly/merging/search"
)

// localTrainer trains on this machine; for the paper's policy as the paper does.
func localTrainer(p search.Policy) merging.Trainer {
	return local.New(local.Options{Descend: p == search.Joint})
}
