package scheduler

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/kvcache"
)

// The routings: how a job finds its executor among those that serve its model.
const (
	RoutePrefix = "prefix" // longest resident prefix against load
	RouteUser   = "user"   // a user's jobs stay together, by rendezvous hash
	RouteLoad   = "load"   // least predicted work
)

// Config is what a user can set of the scheduler. DefaultConfig holds the defaults.
type Config struct {
	Policy           string           // order of waiting jobs, one of Policies(); default srjf-calibrated
	Fairness         float64          // lambda: tokens of work that a second of waiting outweighs, see srjfCalibrated; default 500, the paper's
	UserFairness     bool             // a user's jobs age as if they had come no faster than they can be run; default false
	Routing          string           // prefix, user or load; default prefix
	PrefixCaching    bool             // keep and match prefixes; default true
	FullKV           bool             // hold pages for a whole prompt while it runs, as engines without suffix discarding do; default false
	Eviction         kvcache.Eviction // reuse or lru; default reuse
	MaxQueuedJobs    int              // admission bound on waiting jobs; default 100,000
	MaxQueuedTokens  int              // admission bound on waiting tokens; default 200,000,000 (800 MB)
	MaxQueueTime     time.Duration    // admission bound on the predicted wait; 0, the default, is none
	MaxPassItems     int              // jobs packed into one pass; 1 packs none; default 64
	MaxPaused        int              // paused passes an executor may hold under srpt; default 2
	PeerTimeout      time.Duration    // a peer silent for so long is lost; default 10 s
	UnavailableAfter time.Duration    // a job waits so long for an executor of its model to appear; default 60 s
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Policy:           "srjf-calibrated",
		Fairness:         500,
		Routing:          RoutePrefix,
		PrefixCaching:    true,
		Eviction:         kvcache.EvictReuse,
		MaxQueuedJobs:    100_000,
		MaxQueuedTokens:  200_000_000,
		MaxPassItems:     64,
		MaxPaused:        2,
		PeerTimeout:      10 * time.Second,
		UnavailableAfter: time.Minute,
	}
}

// Validate names the first field that is out of range, and what it may be.
func (c Config) Validate() error {
	if _, err := newPolicy(c); err != nil {
		return err
	}
	switch {
	case math.IsNaN(c.Fairness) || math.IsInf(c.Fairness, 0) || c.Fairness < 0:
		return fmt.Errorf("scheduler: fairness is %v, want 0 or more tokens per second", c.Fairness)
	case c.Routing != RoutePrefix && c.Routing != RouteUser && c.Routing != RouteLoad:
		return fmt.Errorf("scheduler: routing is %q, want %s", c.Routing, strings.Join([]string{RoutePrefix, RouteUser, RouteLoad}, ", "))
	case c.Eviction != kvcache.EvictReuse && c.Eviction != kvcache.EvictLRU:
		return fmt.Errorf("scheduler: eviction is %q, want %q or %q", c.Eviction, kvcache.EvictReuse, kvcache.EvictLRU)
	case c.MaxQueuedJobs < 1:
		return fmt.Errorf("scheduler: max queued jobs is %d, want at least 1", c.MaxQueuedJobs)
	case c.MaxQueuedTokens < 1:
		return fmt.Errorf("scheduler: max queued tokens is %d, want at least 1", c.MaxQueuedTokens)
	case c.MaxQueueTime < 0:
		return fmt.Errorf("scheduler: max queue time is %v, want 0 (none) or more", c.MaxQueueTime)
	case c.MaxPassItems < 1:
		return fmt.Errorf("scheduler: max pass items is %d, want at least 1", c.MaxPassItems)
	case c.MaxPaused < 1:
		return fmt.Errorf("scheduler: max paused passes is %d, want at least 1", c.MaxPaused)
	case c.PeerTimeout <= 0:
		return fmt.Errorf("scheduler: peer timeout is %v, want more than 0", c.PeerTimeout)
	case c.UnavailableAfter <= 0:
		return fmt.Errorf("scheduler: unavailable-after is %v, want more than 0", c.UnavailableAfter)
	}
	return nil
}
