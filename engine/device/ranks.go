package device

import (
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// openRanks opens the ranks of --tensor-parallel-size.
func openRanks(open []func() (kernels.Rank, error), join func([]kernels.Rank) (tensorparallel.Collective, error), partials kernels.DType) (*tensorparallel.Backend, error) {
	b, err := tensorparallel.New(open, join, tensorparallel.Options{Partials: partials})
	if err != nil {
		return nil, &Error{Device, err}
	}
	return b, nil
}
