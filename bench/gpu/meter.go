package main

import (
	"maps"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// meter is a device that, while it is on, marks the beginning and the end of each operation.
type meter struct {
	device
	on      bool
	kernels []string // of the operations since it was switched on
}

var _ cuda.Device = (*meter)(nil)

// The operations that are no kernels of ours.
const (
	gemm  = "matrix product"
	flash = "attention template"
	paged = "attention by cuDNN"
	idle  = "idle"
)

func (m *meter) timeKernel(kernel string, enqueue func()) {
	if !m.on {
		enqueue()
		return
	}
	m.device.Mark()
	enqueue()
	m.device.Mark()
	m.kernels = append(m.kernels, kernel)
}

func (m *meter) Gemm(g cuda.Gemm)   { m.timeKernel(gemm, func() { m.device.Gemm(g) }) }
func (m *meter) Flash(f cuda.Flash) { m.timeKernel(flash, func() { m.device.Flash(f) }) }
func (m *meter) Paged(p cuda.Paged) { m.timeKernel(paged, func() { m.device.Paged(p) }) }

func (m *meter) Launch(kernel string, grid [2]int, threads int, args ...uint64) {
	m.timeKernel(kernel, func() { m.device.Launch(kernel, grid, threads, args...) })
}

// measureTime runs work and returns the device's time by kernel, and what passed between kernels as idle.
func (m *meter) measureTime(work func() error) (map[string]time.Duration, error) {
	m.on, m.kernels = true, nil
	err := work()
	m.on = false
	laps, lapsErr := m.device.Laps()
	if err != nil {
		return nil, err
	}
	if lapsErr != nil {
		return nil, lapsErr
	}
	times := map[string]time.Duration{}
	for i, d := range laps {
		if i%2 == 1 {
			times[idle] += d
		} else {
			times[m.kernels[i/2]] += d
		}
	}
	return times, nil
}

// medianTime is the middle one of so many runs of what enqueue enqueues, by the device's clock; one run
// before them is not counted.
func (m *meter) medianTime(runs int, enqueue func()) (time.Duration, error) {
	enqueue()
	m.device.Mark()
	for range runs {
		enqueue()
		m.device.Mark()
	}
	laps, err := m.device.Laps()
	if err != nil {
		return 0, err
	}
	return medianDuration(laps), nil
}

func medianDuration(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// totalKernelTime is the sum over the kernels for which counts says yes.
func totalKernelTime(times map[string]time.Duration, counts func(kernel string) bool) time.Duration {
	var sum time.Duration
	for kernel, d := range times {
		if counts(kernel) {
			sum += d
		}
	}
	return sum
}

// byTime are the kernels, longest first.
func byTime(times map[string]time.Duration) []string {
	return slices.SortedFunc(maps.Keys(times), func(a, b string) int { return int(times[b] - times[a]) })
}
