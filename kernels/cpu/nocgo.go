//go:build !cgo || !linux || !amd64

package cpu

import (
	"errors"
	"runtime"

	"github.com/prefillonly/prefillonly/kernels"
)

// Backend cannot be made in this build.
type Backend struct{ kernels.Rank }

// DefaultThreads is one for each processor that the process may use.
func DefaultThreads() int { return runtime.GOMAXPROCS(0) }

// New fails: this build has no C code.
func New(Config) (*Backend, error) {
	return nil, errors.New("kernels/cpu: built without cgo or not for Linux on x86-64; build there with CGO_ENABLED=1, or use the reference backend")
}
