package scheduler

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/executors"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// The routings: how a job finds its executor among those that serve its model.
const (
	RoutePrefix = executors.RoutePrefix
	RouteUser   = executors.RouteUser
	RouteLoad   = executors.RouteLoad
)

// Policies lists the names that Config.Policy may have.
func Policies() []string { return queue.Policies() }

// Config is what a user can set of the scheduler. DefaultConfig holds the defaults.
type Config struct {
	Policy           string           // order of waiting jobs, one of Policies(); default srjf-calibrated
	Fairness         float64          // lambda: tokens of work that a second of waiting outweighs; default 500, the paper's
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

// FieldError is a field of Config that is out of range.
type FieldError struct {
	Field string // its name in Config
	Value any
	Want  string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("scheduler: %s is %v, want %s", e.Field, e.Value, e.Want)
}

// Validate names the first field that is out of range, by a FieldError.
func (c Config) Validate() error {
	for _, check := range []struct {
		field string
		value any
		ok    bool
		want  string
	}{
		{"Policy", c.Policy, slices.Contains(Policies(), c.Policy), "one of " + strings.Join(Policies(), ", ")},
		{"Fairness", c.Fairness, c.Fairness >= 0 && !math.IsInf(c.Fairness, 0), "0 or more tokens per second"},
		{"Routing", c.Routing, slices.Contains([]string{RoutePrefix, RouteUser, RouteLoad}, c.Routing), strings.Join([]string{RoutePrefix, RouteUser, RouteLoad}, ", ")},
		{"Eviction", c.Eviction, c.Eviction == kvcache.EvictReuse || c.Eviction == kvcache.EvictLRU, fmt.Sprintf("%q or %q", kvcache.EvictReuse, kvcache.EvictLRU)},
		{"MaxQueuedJobs", c.MaxQueuedJobs, c.MaxQueuedJobs >= 1, "at least 1"},
		{"MaxQueuedTokens", c.MaxQueuedTokens, c.MaxQueuedTokens >= 1, "at least 1"},
		{"MaxQueueTime", c.MaxQueueTime, c.MaxQueueTime >= 0, "0 (none) or more"},
		{"MaxPassItems", c.MaxPassItems, c.MaxPassItems >= 1, "at least 1"},
		{"MaxPaused", c.MaxPaused, c.MaxPaused >= 1, "at least 1"},
		{"PeerTimeout", c.PeerTimeout, c.PeerTimeout > 0, "more than 0"},
		{"UnavailableAfter", c.UnavailableAfter, c.UnavailableAfter > 0, "more than 0"},
	} {
		if !check.ok {
			return &FieldError{check.field, check.value, check.want}
		}
	}
	return nil
}

// executorOptions are what of a valid Config executors go by.
func (c Config) executorOptions() (executors.Options, error) {
	if err := c.Validate(); err != nil {
		return executors.Options{}, err
	}
	p, err := queue.NewPolicy(c.Policy, c.Fairness)
	return executors.Options{
		Policy: p, Fairness: c.Fairness, UserFairness: c.UserFairness, PrefixCaching: c.PrefixCaching,
		FullKV: c.FullKV, Eviction: c.Eviction, MaxPassItems: c.MaxPassItems, MaxPaused: c.MaxPaused,
	}, err
}
