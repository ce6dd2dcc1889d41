//go:build !cuda

package cuda

import "fmt"

// Open reports that this binary has no CUDA support.
func Open(int, Options) (Device, error) {
	return nil, fmt.Errorf("%w: this binary is built without CUDA: run make cuda and serve with bin/prefillonly-cuda, or serve with --device cpu", ErrNoDevice)
}
