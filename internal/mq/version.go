package mq

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// refusalInterval is how often a peer of another version is told so; until it ends it may say Hello each second.
const refusalInterval = 10 * time.Second

// silenceBound is how long the scheduler may leave the first Hellos of a connection unanswered until that is
// reported; a variable for tests.
var silenceBound = 10 * time.Second

// maxRefusals bounds the peers that are remembered for having been refused.
const maxRefusals = 4096

// RefusedError says that the other side is of another release, whose protocol this process does not speak.
type RefusedError struct {
	Peer          string // who refuses
	Version       uint64 // that it speaks
	Release, Ours string // of prefillonly, there and here
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the %s is prefillonly %.64q and speaks version %d of the protocol between processes; this is prefillonly %.64q, which speaks version %d: install the same release on both sides",
		e.Peer, e.Release, e.Version, e.Ours, wire.Version)
}

// silentError says that the scheduler answers nothing. A release before Refused cannot say why.
type silentError struct{ release string }

func (e *silentError) Error() string {
	return fmt.Sprintf("the scheduler has answered nothing for %v: it hangs, or is of another release; this is prefillonly %.64q, which speaks version %d of the protocol between processes",
		silenceBound, e.release, wire.Version)
}

// refusals remembers which connections were told that they speak another version. The zero value is empty.
type refusals map[string]time.Time

// nextRefusal says whether a connection is to be told now, and whether that is for the first time.
func (r *refusals) nextRefusal(connection string, now time.Time) (tell, first bool) {
	told, again := (*r)[connection]
	if again && now.Sub(told) < refusalInterval {
		return false, false
	}
	if *r == nil || len(*r) >= maxRefusals {
		*r = refusals{}
	}
	(*r)[connection] = now
	return true, !again
}
