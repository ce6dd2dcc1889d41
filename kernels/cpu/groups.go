//go:build cgo && linux && amd64

package cpu

// #include "prefillonly_kernels.h"
import "C"

import (
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// HoldsGroups implements kernels.GroupHolder.
func (b *Backend) HoldsGroups() {}

// keepsGroups says whether parts of a matrix are kept as the codes that they were expanded from.
func keepsGroups(parts []kernels.HostTensor) bool {
	for _, p := range parts {
		if p.Groups == nil || p.Groups.Cols != parts[0].Groups.Cols || p.Cols > C.PF_EXPANDED_MAX_IN {
			return false
		}
	}
	return true
}

// allocGroups makes room for codes of four bits, and sets the scales and zero points of every row of the panels.
func (l *linear) allocGroups(parts []kernels.HostTensor, elements int64) error {
	groups := parts[0].Groups.Count(parts[0].Cols)
	units := int64(l.c.panels) * int64(groups) * C.PF_PANEL
	var err error
	if l.weights, err = newBuffer(elements / 2); err == nil {
		l.groupScale, err = newBuffer(units * 4)
	}
	if err == nil {
		l.zeros, err = newBuffer(units)
	}
	if err != nil {
		l.Free()
		return err
	}
	l.c.codes = (*C.uint8_t)(l.weights.At(0))
	l.c.group, l.c.groups = C.int(parts[0].Groups.Cols), C.int(groups)
	l.c.group_scale, l.c.zeros = (*C.float)(l.groupScale.At(0)), (*C.uint8_t)(l.zeros.At(0))
	scale, zeros := unsafe.Slice((*float32)(l.groupScale.At(0)), units), unsafe.Slice((*byte)(l.zeros.At(0)), units)
	l.eachRow(parts, func(at int, part *kernels.HostTensor, row int) {
		for g := range groups {
			to := (at/C.PF_PANEL*groups+g)*C.PF_PANEL + at%C.PF_PANEL
			scale[to], zeros[to] = part.Groups.Scale[row*groups+g], part.Groups.Zero[row*groups+g]
		}
	})
	return nil
}
