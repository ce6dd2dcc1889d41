package pipe

import (
	"strings"
	"sync"
)

// tailSize is how much is kept of what a child says.
const tailSize = 2048

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte // guarded by mu
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-tailSize):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
