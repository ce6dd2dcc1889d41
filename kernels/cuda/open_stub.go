//go:build !cuda

package cuda

import "fmt"

var errNotBuilt = fmt.Errorf("%w: this binary is built without CUDA: run make cuda and serve with bin/prefillonly-cuda, or serve with --device cpu", ErrNoDevice)

// Open reports that this binary has no CUDA support.
func Open(int, Options) (Device, error) { return nil, errNotBuilt }

// BusIDs reports that this binary has no CUDA support.
func BusIDs() ([]string, error) { return nil, errNotBuilt }
