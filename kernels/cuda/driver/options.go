// Package driver is a cuda.Device of a real NVIDIA GPU: CUDA's driver, cuBLASLt, cuDNN and attention templates, behind
// the build tag cuda. Without the tag it says that it is not there.
package driver

import "errors"

// ErrNoDevice is in the error of Open where there is no GPU at all, or no driver to show one. Any
// other error of Open is about a GPU that is there.
var ErrNoDevice = errors.New("no device")

// Options are the settings of Open.
type Options struct {
	BlasLibrary  string // path of cuBLASLt; empty: found by its usual names
	CudnnLibrary string // path of cuDNN; empty: found by its usual name
	// AttentionBackend is cudnn, flashinfer, or auto (empty): cuDNN if it is there and covers the shape.
	AttentionBackend string
	// PlanDir keeps compiled plans of cuDNN from one run to the next; empty: none are kept.
	PlanDir string
	// Note, if any, is told what the log should say.
	Note func(string)
}
