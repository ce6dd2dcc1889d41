package frontend

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine/board"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// probe is the answer of the health endpoints.
type probe struct {
	Status    string       `json:"status"`
	Reason    string       `json:"reason,omitempty"`
	Executors int          `json:"executors"`        // of the model that has most
	Models    []modelProbe `json:"models,omitempty"` // that are on a device, on their way there or away, or cannot be, and those that are kept
}

type modelProbe struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// answerHealth says whether the server can still come to answer: its scheduler is heard of. An executor
// that is being restarted does not make it unhealthy.
func (f *Frontend) answerHealth(x *exchange.Exchange, _ *http.Request) {
	p := probe{Reason: f.unhealthyReason()}
	for _, m := range f.models.All() {
		if served := f.pool.State().Models[m.Name]; served != nil {
			p.Executors = max(p.Executors, served.Executors)
		}
	}
	f.writeProbe(x, "ok", "unhealthy", p)
}

// answerReady says whether new requests should be sent here now.
func (f *Frontend) answerReady(x *exchange.Exchange, _ *http.Request) {
	f.writeProbe(x, "ready", "not ready", f.readiness())
}

func (f *Frontend) writeProbe(x *exchange.Exchange, good, bad string, p probe) {
	status := http.StatusOK
	if p.Status = good; p.Reason != "" {
		p.Status, status = bad, http.StatusServiceUnavailable
	}
	x.WriteJSON(status, p)
}

// State is what /health and /ready say.
func (f *Frontend) State() (healthy, ready bool) {
	return f.unhealthyReason() == "", f.readiness().Reason == ""
}

// unhealthyReason is why the server cannot come to answer; empty if it can.
func (f *Frontend) unhealthyReason() string { return f.schedulerSilent(f.pool.Config().AwayTimeout) }

// readiness says how each model is, with a Reason if new requests should not be sent here: every model that is kept
// has to be ready, and one at least able to serve. One that has failed does not hold the others up. The processes that keep streams and
// batches have to have been there.
func (f *Frontend) readiness() probe {
	p, able, state := probe{}, false, f.pool.State()
	var missing, failed []string
	for _, m := range f.models.All() {
		served := state.Models[m.Name]
		if served == nil {
			served = &wire.Served{Name: m.Name}
		}
		how := modelProbe{ID: m.Name, State: served.State.String(), Reason: served.Reason}
		ready := served.State == wire.ModelReady
		if err := f.models.Failure(m); err != nil {
			ready, how.State, how.Reason = false, wire.ModelFailed.String(), err.Error()
		}
		kept := m.Always || served.Keep == wire.KeepAlways
		switch {
		case how.State == wire.ModelFailed.String():
			failed = append(failed, fmt.Sprintf("the model %s has failed: %s", how.ID, how.Reason))
		case kept && !ready:
			missing = append(missing, unreadyReason(served, how))
		}
		able = able || served.Executors > 0 && (ready || how.State == "absent" || how.State == "loading")
		p.Executors = max(p.Executors, served.Executors)
		if kept || how.State != "absent" {
			p.Models = append(p.Models, how)
		}
	}
	switch {
	case f.server.Draining():
		p.Reason = "the server is shutting down"
	case len(missing) > 0:
		p.Reason = withProgress(missing[0], state.Executors)
	case !able && len(failed) > 0:
		p.Reason = failed[0]
	case !able:
		p.Reason = withProgress("no executor serves "+f.models.All()[0].Name+" yet", state.Executors)
	default:
		p.Reason = cmp.Or(f.schedulerSilent(missedHeartbeats*f.pool.Config().Heartbeat), f.processesStarting())
	}
	return p
}

// processesStarting says which process beside this one has never listened; empty if all have.
func (f *Frontend) processesStarting() string {
	for _, r := range f.relays {
		if reason := r.Starting(); reason != "" {
			return reason
		}
	}
	return ""
}

// unreadyReason says why a model that is kept is not ready.
func unreadyReason(served *wire.Served, how modelProbe) string {
	switch {
	case served.Executors == 0:
		return "no executor serves " + how.ID + " yet"
	case how.State == "absent":
		return "the model " + how.ID + " is not loaded yet"
	}
	return "the model " + how.ID + " is " + how.State
}

// withProgress adds how far executors are that load weights.
func withProgress(reason string, states []wire.ExecutorState) string {
	var parts []string
	for _, s := range states {
		if s.Loaded < s.ToLoad {
			parts = append(parts, fmt.Sprintf("%s has loaded %.1f of %.1f GB", s.Name, float64(s.Loaded)/1e9, float64(s.ToLoad)/1e9))
		}
	}
	if len(parts) == 0 {
		return reason
	}
	return reason + ": " + strings.Join(parts, ", ")
}

// missedHeartbeats is how many heartbeats the scheduler may leave unanswered before requests should go
// elsewhere.
const missedHeartbeats = 10

// schedulerSilent says so if the scheduler has been silent for longer than limit.
func (f *Frontend) schedulerSilent(limit time.Duration) string {
	if silent := time.Since(f.pool.State().Heard); silent > limit {
		return "the scheduler has been silent for " + silent.Round(time.Second).String()
	}
	return ""
}

func (f *Frontend) answerVersion(x *exchange.Exchange, _ *http.Request) {
	x.WriteJSON(http.StatusOK, map[string]string{"version": f.cfg.Version})
}

// serverLoad answers vLLM's /load: the requests being served, this one aside.
func (f *Frontend) serverLoad(x *exchange.Exchange, _ *http.Request) {
	x.WriteJSON(http.StatusOK, map[string]int{"server_load": f.server.InFlight() - 1})
}

// boardSilence is for how long the scheduler may say nothing before the page calls its figures old.
const boardSilence = 3 * time.Second

// boardReading is what the page of the server shows.
func (f *Frontend) boardReading() board.Reading {
	open, _ := f.pool.Jobs()
	totals := f.metrics.Totals()
	slots := processors.Shared()
	waiting, running := slots.Load()
	return board.Reading{
		At: time.Since(f.started).Seconds(), Pool: f.pool.State(), Totals: totals, Open: open, Trouble: f.schedulerSilent(boardSilence),
		Processors: board.Processors{Slots: slots.Slots(), Running: running, Waiting: waiting, Kinds: slots.Kinds()},
		Merges:     f.metrics.Merges(),
	}
}
