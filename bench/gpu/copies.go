package main

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// measureCopies measures copies between host and device, from and to page-locked and ordinary memory.
func (b *bench) measureCopies() error {
	buf, err := b.backend.Alloc(int64(b.copied))
	if err != nil {
		return err
	}
	defer buf.Free()
	at := cuda.Address(buf)
	pinned, free, err := b.device.Pinned(b.copied)
	if err != nil {
		return err
	}
	defer free()
	fmt.Fprintf(b.out, "Copies of %d MiB, GB/s.\n\n| host memory | to the device | from it |\n|---|---|---|\n", b.copied>>20)
	for _, c := range []struct {
		name   string
		memory []byte
	}{{"page-locked", pinned}, {"ordinary", make([]byte, b.copied)}} {
		for i := range c.memory {
			c.memory[i] = byte(i) // pages that were never written may not exist
		}
		to, err := b.copyRate(func() { b.device.Upload(at, c.memory) })
		if err != nil {
			return err
		}
		from, err := b.copyRate(func() { b.device.Download(c.memory, at) })
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "| %s | %.4g | %.4g |\n", c.name, to, from)
	}
	return nil
}

// copyRate is the GB/s of a copy, by the host's clock.
func (b *bench) copyRate(copy func()) (float64, error) {
	var times []time.Duration
	for range b.runs + 1 {
		start := time.Now()
		copy()
		if err := b.device.Sync(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
	}
	return float64(b.copied) / medianDuration(times[1:]).Seconds() / 1e9, nil
}
