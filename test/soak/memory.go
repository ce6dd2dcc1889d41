package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/internal/procfs"
)

// warmUp is the part of a life in which a process may grow, and lastPart the part in which it must not have
// grown since; judgedFrom is the shortest life that is judged.
const (
	warmUp     = 0.3
	lastPart   = 0.2
	judgedFrom = 15 * time.Second
)

// sampleEvery is often enough for a few hundred samples.
func sampleEvery(c config) time.Duration {
	return min(max(c.duration/600, 200*time.Millisecond), 5*time.Second)
}

// life is the memory of one process over its time.
type life struct {
	process
	samples []int64 // bytes, evenly in time
}

// memory is the lives of all processes.
type memory struct {
	every time.Duration

	mu    sync.Mutex
	lives []*life // guarded by mu; in the order of their beginning
}

// startSampling samples until ctx ends; then the result is closed.
func (m *memory) startSampling(ctx context.Context, s *server, every time.Duration) <-chan struct{} {
	m.every = every
	over := make(chan struct{})
	go func() {
		defer close(over)
		for sleep(ctx, every) == nil {
			for _, p := range s.runningProcesses() {
				if n, err := procfs.Memory(p.pid); err == nil {
					m.addSample(p, n)
				}
			}
		}
	}()
	return over
}

func (m *memory) addSample(p process, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.lives, func(l *life) bool { return l.process == p })
	if i < 0 {
		i = len(m.lives)
		m.lives = append(m.lives, &life{process: p})
	}
	m.lives[i].samples = append(m.lives[i].samples, bytes)
}

// memoryGrowth is what a process held when it was warm, and in the end: medians, as garbage comes and goes. A life
// that is too short tells nothing.
func (l *life) memoryGrowth(every time.Duration) (warm, last int64, judged bool) {
	n := len(l.samples)
	if n < 5 || time.Duration(n)*every < judgedFrom {
		return 0, 0, false
	}
	from, to := int(warmUp*float64(n)), int((1-lastPart)*float64(n))
	return median(l.samples[from : from+max(n-to, 1)]), median(l.samples[to:]), true
}

// steadyBytes is what a process of this name held when it was warm, in its longest life: a short one may still
// be filling its caches up to that when it ends.
func (m *memory) steadyBytes(name string) int64 {
	var longest *life
	for _, l := range m.lives {
		if l.name == name && (longest == nil || len(l.samples) > len(longest.samples)) {
			longest = l
		}
	}
	warm, _, _ := longest.memoryGrowth(m.every)
	return warm
}

// hasGrown says whether a life has grown by more than so much since it was warm, or by more than a seventh, and
// beyond what is steady for its name.
func (m *memory) hasGrown(l *life, within int64) (warm, last int64, grew bool) {
	warm, last, judged := l.memoryGrowth(m.every)
	room := func(from int64) bool { return last-from > max(within, from/7) }
	return warm, last, judged && room(warm) && room(m.steadyBytes(l.name))
}

func median(samples []int64) int64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[len(sorted)/2]
}
