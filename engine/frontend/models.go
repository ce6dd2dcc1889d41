package frontend

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/api"
)

func (f *Frontend) model(name string) api.Model {
	return api.Model{
		ID: name, Object: "model", Created: f.started.Unix(), OwnedBy: "prefillonly", Root: f.cfg.Models[0],
		MaxModelLen: f.pool.State().MaxModelLen, DefaultMaxTokens: f.cfg.DefaultMaxTokens,
	}
}

func (f *Frontend) listModels(x *exchange, _ *http.Request) {
	list := api.Models{Object: "list"}
	for _, name := range f.cfg.Models {
		list.Data = append(list.Data, f.model(name))
	}
	f.writeJSON(x, http.StatusOK, list)
}

func (f *Frontend) getModel(x *exchange, r *http.Request) {
	name := chi.URLParam(r, "*")
	if !slices.Contains(f.cfg.Models, name) {
		f.refuse(x, unknownModel(name, f.cfg.Models))
		return
	}
	f.writeJSON(x, http.StatusOK, f.model(name))
}

// probe is the answer of the health endpoints.
type probe struct {
	Status    string `json:"status"`
	Reason    string `json:"reason,omitempty"`
	Executors int    `json:"executors"`
}

// health says whether the server can still come to answer: its scheduler is heard of. An executor
// that is being restarted does not make it unhealthy.
func (f *Frontend) health(x *exchange, _ *http.Request) {
	f.writeProbe(x, "ok", "unhealthy", f.unhealthy())
}

// ready says whether new requests should be sent here now.
func (f *Frontend) ready(x *exchange, _ *http.Request) {
	f.writeProbe(x, "ready", "not ready", f.unready())
}

func (f *Frontend) writeProbe(x *exchange, good, bad, reason string) {
	p, status := probe{Status: good, Reason: reason, Executors: f.pool.State().Serving}, http.StatusOK
	if reason != "" {
		p.Status, status = bad, http.StatusServiceUnavailable
	}
	f.writeJSON(x, status, p)
}

// unhealthy is why the server cannot come to answer; empty if it can.
func (f *Frontend) unhealthy() string { return f.schedulerSilent(f.cfg.AwayTimeout) }

// unready is why new requests should not be sent here; empty if they should.
func (f *Frontend) unready() string {
	state := f.pool.State()
	switch {
	case f.server.Draining():
		return "the server is shutting down"
	case state.Serving == 0:
		reason := "no executor serves " + f.cfg.Models[0] + " yet"
		if text := loadingText(state.States); text != "" {
			reason += ": " + text
		}
		return reason
	}
	return f.schedulerSilent(missedHeartbeats * f.cfg.Heartbeat)
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

func (f *Frontend) version(x *exchange, _ *http.Request) {
	f.writeJSON(x, http.StatusOK, map[string]string{"version": f.cfg.Version})
}

// serverLoad answers vLLM's /load: the requests being served, this one aside.
func (f *Frontend) serverLoad(x *exchange, _ *http.Request) {
	f.writeJSON(x, http.StatusOK, map[string]int{"server_load": f.server.InFlight() - 1})
}
