package exchange

import (
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api"
)

// maxUnknown bounds the names that unknown remembers, and their bytes.
const (
	maxUnknown     = 1024
	maxUnknownName = 64
)

// unknown tells the log, once each, of the fields that bodies have and their paths do not read. Its methods are safe for
// concurrent use.
type unknown struct {
	fields map[string]map[string]bool // that a path reads, in lower case, as encoding/json finds them in any; set once
	mu     sync.Mutex
	told   map[[2]string]bool // by path and field; guarded by mu
}

// Reads says which fields the bodies of each path may have.
func (s *Shared) Reads(fields map[string]map[string]bool) { s.unknown.fields = fields }

// findFields finds those of a body that its path does not read.
func (u *unknown) findFields(path string, body []byte, log *zap.Logger) {
	fields := u.fields[path]
	if fields == nil {
		return
	}
	for name := range api.Keys(body) {
		if fields[string(name)] {
			continue
		}
		if key := string(name); !fields[strings.ToLower(key)] && u.isFirstSeen(path, key) {
			log.Info("bodies have a field that this path does not read; it is passed over", zap.String("path", path), zap.String("field", key[:min(len(key), maxUnknownName)]))
		}
	}
}

// isFirstSeen says whether a field was not told of, and may be.
func (u *unknown) isFirstSeen(path, key string) bool {
	named := [2]string{path, key[:min(len(key), maxUnknownName)]}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.told[named] || len(u.told) >= maxUnknown {
		return false
	}
	if u.told == nil {
		u.told = map[[2]string]bool{}
	}
	u.told[named] = true
	return true
}
