package device

import (
	"errors"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// Cause is what keeps a device from being opened, or a model from being loaded onto it.
type Cause int

const (
	Configuration Cause = iota + 1 // an option's value, or options that contradict each other
	Model                          // the checkpoint cannot be read, or not be run with these options
	Device                         // no usable device
	Memory                         // the model does not fit into the memory of the device or of the host
	Lost                           // the device failed meanwhile; another process may find it well
)

// Error is an error whose cause is known. Its text is that of Err alone.
type Error struct {
	Cause Cause
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// CauseOf is the cause of an error, 0 for one that is unknown.
func CauseOf(err error) Cause {
	var e *Error
	if errors.As(err, &e) {
		return e.Cause
	}
	return 0
}

// loadFailure is what went wrong with loading: the device, its memory, or the model.
func loadFailure(err error) Cause {
	var memory *cuda.MemoryError
	switch {
	case executor.DeviceLost(err):
		return Lost
	case errors.As(err, &memory):
		return Memory
	}
	return Model
}
