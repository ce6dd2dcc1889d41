package stages

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Policy is in which order stages begin.
type Policy string

// Policies.
const (
	// OnTime begins those that can be in time by when they are due, leaves out as few of them as may be, and drops what is too late.
	OnTime Policy = "on-time"
	// EDF begins what is due first, whether or not it can be in time.
	EDF Policy = "edf"
	// SLO is EDF that drops what is past its deadline by more than a threshold.
	SLO Policy = "slo"
	// FIFO begins what belongs to the request that came first.
	FIFO Policy = "fifo"
)

// Policies lists all.
func Policies() []Policy { return []Policy{OnTime, EDF, SLO, FIFO} }

// PolicyNames are the same as texts.
func PolicyNames() (names []string) {
	for _, p := range Policies() {
		names = append(names, string(p))
	}
	return names
}

// Parameters are how a Core gives out slots.
type Parameters struct {
	Slots     int
	Policy    Policy
	LostCause time.Duration // of SLO: how long past its deadline a stage is not dropped
	Express   bool          // short stages may hold one slot more than there are
	Outside   int           // most slots of programs beside the server; Half of them, 0: none
}

// Half is, as Outside, half of the Slots, and one at least.
const Half = -1

// Validate refuses what is no Parameters.
func (p Parameters) Validate() error {
	switch {
	case p.Slots < 1:
		return fmt.Errorf("invalid number of slots %d: want 1 or more", p.Slots)
	case !slices.Contains(Policies(), p.Policy):
		return fmt.Errorf("invalid policy %q: want one of %s", p.Policy, strings.Join(PolicyNames(), ", "))
	case p.Outside < Half || p.Outside > p.Slots:
		return fmt.Errorf("invalid number of slots for other programs %d: want 0 to %d", p.Outside, p.Slots)
	case p.LostCause < 0:
		return fmt.Errorf("invalid lost-cause threshold %v: want 0 or more", p.LostCause)
	}
	return nil
}
