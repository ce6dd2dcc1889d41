package presets

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/scheduler"
	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// Swaps are Poisson requests for models of one size, of which the device does not hold all.
type Swaps struct {
	Shares   []float64 // of the requests, by model
	Room     int       // models that the device holds
	Load     float64   // seconds to load one
	Service  float64   // mean seconds of a request; they are uniform between a third and five thirds of it
	Rate     float64   // requests a second
	OwnTime  bool      // loads take the device's own time, as on a CPU; loads and passes at once take twice as long each
	Requests int
	Seed     uint64
}

// SwapsOutcome is what a simulation found.
type SwapsOutcome struct {
	Loads   int       // of whole models
	Waits   []float64 // seconds from arrival to answer, in order of arrival
	Models  []int     // of the requests
	Service []float64 // seconds, of the requests
	Arrived []float64 // seconds
}

// Mean is the mean of the waits.
func (o *SwapsOutcome) Mean() float64 {
	sum := 0.0
	for _, w := range o.Waits {
		sum += w
	}
	return sum / float64(len(o.Waits))
}

// Percentile is the wait that so many of a hundred requests do not exceed.
func (o *SwapsOutcome) Percentile(p float64) float64 {
	sorted := slices.Sorted(slices.Values(o.Waits))
	return sorted[min(len(sorted)-1, int(math.Ceil(p/100*float64(len(sorted))))-1)]
}

// token is the seconds of a unit of a request's work: 200 of them are a mean request of 0.15 s.
const token = 0.00075

// parts is into how many pieces of a byte a model is cut: a layer each.
const parts = 24

// Run simulates the setting under the real scheduler, or in the order of another server that Servers names.
func (s Swaps) Run(server string) (*SwapsOutcome, error) {
	decides, err := s.scheduler(server)
	if err != nil {
		return nil, err
	}
	requests, o := s.requests()
	out, err := sim.World{Scheduler: decides, Executors: []sim.Executor{s.device()}, Requests: requests}.Run()
	if err != nil {
		return nil, err
	}
	for i, r := range out.Records {
		if r.Code != 0 {
			return nil, fmt.Errorf("request %d was refused: %s", i, r.Code)
		}
		o.Waits = append(o.Waits, r.Latency().Seconds())
	}
	o.Loads = int(math.Round(float64(out.Loaded[0]) / parts))
	return o, nil
}

func (s Swaps) scheduler(server string) (sim.Scheduler, error) {
	if server != Scheduler {
		return newServer(server, s.Room)
	}
	config := scheduler.DefaultConfig()
	config.MaxPassItems = 1
	return sim.NewCore(config)
}

func swapModel(m int) string { return fmt.Sprint("model-", m) }

// device is what the models share.
func (s Swaps) device() sim.Executor {
	e := sim.Executor{Name: "device", Memory: uint64(s.Room) * parts, LoadRate: parts / s.Load, Aside: !s.OwnTime}
	for m := range s.Shares {
		h := sim.Model{Name: swapModel(m), Cost: sim.Cost{Token: token}, Frames: 1}
		for range parts {
			h.Pieces = append(h.Pieces, uint32(len(e.Weights)))
			e.Weights = append(e.Weights, 1)
		}
		e.Models = append(e.Models, h)
	}
	return e
}

// requests are those of the setting, and what is known of them beforehand.
func (s Swaps) requests() (iter.Seq[sim.Request], *SwapsOutcome) {
	rng := rand.New(rand.NewPCG(s.Seed, 23))
	at := 0.0
	var list []sim.Request
	o := &SwapsOutcome{}
	for range s.Requests {
		at += rng.ExpFloat64() / s.Rate
		model, u := 0, rng.Float64()
		for u -= s.Shares[0]; u > 0 && model < len(s.Shares)-1; u -= s.Shares[model] {
			model++
		}
		service := s.Service * (1 + 4*rng.Float64()) / 3
		o.Models, o.Service, o.Arrived = append(o.Models, model), append(o.Service, service), append(o.Arrived, at)
		list = append(list, sim.Request{At: time.Duration(at * 1e9), Model: swapModel(model), Frames: service / token})
	}
	return slices.Values(list), o
}
