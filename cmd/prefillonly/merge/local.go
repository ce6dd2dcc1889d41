package merge

import (
	"github.com/prefillonly/prefillonly/merging/local"
	"github.com/prefillonly/prefillonly/merging/search"
	"github.com/prefillonly/prefillonly/merging/trainer"
)

// localTrainer trains on this machine; for the paper's policy as the paper does.
func localTrainer(p search.Policy) trainer.Trainer {
	return local.New(local.Options{Descend: p == search.Joint})
}
