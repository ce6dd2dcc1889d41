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
		MaxModelLen: f.jobs.state.Load().maxModelLen,
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
	state := f.jobs.state.Load()
	p := probe{Status: "ok", Executors: state.serving}
	status := http.StatusOK
	if silent := time.Since(state.at); silent > f.cfg.AwayTimeout {
		status = http.StatusServiceUnavailable
		p.Status, p.Reason = "unhealthy", "the scheduler has been silent for "+silent.Round(time.Second).String()
	}
	f.writeJSON(x, status, p)
}

// ready says whether new requests should be sent here now.
func (f *Frontend) ready(x *exchange, _ *http.Request) {
	state := f.jobs.state.Load()
	p := probe{Status: "ready", Executors: state.serving}
	switch silent := time.Since(state.at); {
	case f.server.Draining():
		p.Reason = "the server is shutting down"
	case state.serving == 0:
		p.Reason = "no executor serves " + f.cfg.Models[0] + " yet"
		if text := loadingText(state.States); text != "" {
			p.Reason += ": " + text
		}
	case silent > f.cfg.AwayTimeout:
		p.Reason = "the scheduler has been silent for " + silent.Round(time.Second).String()
	}
	status := http.StatusOK
	if p.Reason != "" {
		status, p.Status = http.StatusServiceUnavailable, "not ready"
	}
	f.writeJSON(x, status, p)
}

func (f *Frontend) version(x *exchange, _ *http.Request) {
	f.writeJSON(x, http.StatusOK, map[string]string{"version": f.cfg.Version})
}

// serverLoad answers vLLM's /load: the requests being served, this one aside.
func (f *Frontend) serverLoad(x *exchange, _ *http.Request) {
	f.writeJSON(x, http.StatusOK, map[string]int{"server_load": f.server.InFlight() - 1})
}
