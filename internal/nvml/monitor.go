package nvml

import (
	"context"
	"fmt"
	"time"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// patience bounds how long the end of a Monitor may take.
const patience = 200 * time.Millisecond

// xidReading is the number of the last Xid error.
const xidReading = "DCGM_FI_DEV_XID_ERRORS"

// Monitor watches a GPU until ctx ends or the GPU is lost. It calls sampled with readings at once and
// then every so often, and seen with the number of every Xid error that the driver reports. It
// returns nil, or an error that wraps ErrLost.
func (l *Library) Monitor(ctx context.Context, g GPU, every time.Duration, sampled func([]Reading), seen func(xid uint64)) error {
	events, err := l.registerEvents(g)
	if err != nil {
		return err
	}
	defer func() {
		if events != nil {
			events.Free()
		}
	}()
	var xid uint64
	for next := time.Now(); ; {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(every)
			readings, err := l.Sample(g)
			if err != nil {
				return err
			}
			sampled(append(readings, Reading{xidReading, float64(xid)}))
		}
		e, ret := waitXid(ctx, events)
		if ctx.Err() != nil {
			return nil
		}
		switch ret {
		case nv.SUCCESS, nv.ERROR_TIMEOUT:
		case nv.ERROR_GPU_IS_LOST:
			return gpuError(g, "does not answer", ret)
		default: // no more events; samples still tell of a loss
			events.Free()
			events = nil
		}
		if e == 0 {
			continue
		}
		xid, next = e, time.Now()
		seen(xid)
		if what, fatal := fatalXids[xid]; fatal {
			return fmt.Errorf("%w: %s (%s) reports Xid %d (%s); see dmesg, and reset the GPU", ErrLost, g.Name, g.UUID, xid, what)
		}
	}
}

// registerEvents asks to be told of the GPU's errors; nil where the driver cannot.
func (l *Library) registerEvents(g GPU) (nv.EventSet, error) {
	device, err := l.findDevice(g)
	if err != nil {
		return nil, err
	}
	set, ret := l.api.EventSetCreate()
	if ret != nv.SUCCESS {
		return nil, nil
	}
	if ret := device.RegisterEvents(nv.EventTypeXidCriticalError, set); ret != nv.SUCCESS {
		set.Free()
		if ret == nv.ERROR_GPU_IS_LOST {
			return nil, gpuError(g, "does not answer", ret)
		}
		return nil, nil
	}
	return set, nil
}

// waitXid returns the number of an Xid error, or 0 after a while without one.
func waitXid(ctx context.Context, events nv.EventSet) (uint64, nv.Return) {
	if events == nil {
		select {
		case <-time.After(patience):
		case <-ctx.Done():
		}
		return 0, nv.ERROR_TIMEOUT
	}
	e, ret := events.Wait(uint32(patience.Milliseconds()))
	if ret != nv.SUCCESS {
		return 0, ret
	}
	return e.EventData, ret
}
