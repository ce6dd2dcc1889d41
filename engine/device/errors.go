package device

import (
	"errors"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/host"
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

// openFailure is what went wrong with hosting models: the device, its memory, an option, or a model.
func openFailure(err error) Cause {
	var device *cuda.MemoryError
	var memory *host.MemoryError
	var option *host.OptionError
	switch {
	case executor.DeviceLost(err):
		return Lost
	case errors.As(err, &device), errors.As(err, &memory):
		return Memory
	case errors.As(err, &option):
		return Configuration
	}
	return Model
}
