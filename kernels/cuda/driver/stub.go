//go:build !cuda

package driver

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

var errNotBuilt = fmt.Errorf("%w: this binary is built without CUDA: run make cuda and serve with bin/prefillonly-cuda, or serve with --device cpu", ErrNoDevice)

// Open reports that this binary has no CUDA support.
func Open(int, Options) (cuda.Device, error) { return nil, errNotBuilt }

// BusIDs reports that this binary has no CUDA support.
func BusIDs() ([]string, error) { return nil, errNotBuilt }
