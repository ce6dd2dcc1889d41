// Package swaps simulates requests for more models than a device holds: which wait until they are served, in the order
// of scheduler/residency or in that of other servers.
package swaps

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Setting is what is simulated: Poisson requests for models of one size.
type Setting struct {
	Shares   []float64 // of the requests, by model
	Room     int       // models that the device holds
	Load     float64   // seconds to load one
	Service  float64   // mean seconds of a request; they are uniform between a third and five thirds of it
	Rate     float64   // requests a second
	OwnTime  bool      // loads take the device's own time, as on a CPU; loads and passes at once take twice as long each
	Requests int
	Seed     uint64
}

// Outcome is what a simulation found.
type Outcome struct {
	Loads   int       // of whole models
	Waits   []float64 // seconds from arrival to answer, in order of arrival
	Models  []int     // of the requests
	Service []float64 // seconds, of the requests
	Arrived []float64 // seconds
}

// Mean is the mean of the waits.
func (o *Outcome) Mean() float64 {
	sum := 0.0
	for _, w := range o.Waits {
		sum += w
	}
	return sum / float64(len(o.Waits))
}

// Percentile is the wait that so many of a hundred requests do not exceed.
func (o *Outcome) Percentile(p float64) float64 {
	sorted := slices.Sorted(slices.Values(o.Waits))
	return sorted[min(len(sorted)-1, int(math.Ceil(p/100*float64(len(sorted))))-1)]
}

// job is a request.
type job struct {
	id      int
	model   int
	at      float64
	service float64
}

// order decides what is loaded and what runs. Both are asked whenever something has happened, load first.
type order interface {
	arrived(w *world, j *job)
	load(w *world)          // asked when the channel is free; may call world.startLoad
	loaded(w *world)        // what was loaded is there
	run(w *world)           // asked when the device is free; may call world.startRun
	ended(w *world, j *job) // a pass has ended
}

// world is the state of a simulation.
type world struct {
	Setting
	now     float64
	queue   []*job // all that wait, in order of arrival
	running *job
	run     float64 // seconds of work left of the pass
	loading bool
	load    float64 // seconds of work left of the load
	loads   float64
	out     Outcome
}

// simulateSetting runs a setting under an order until all requests are answered.
func simulateSetting(s Setting, o order) *Outcome {
	w := &world{Setting: s}
	coming := s.newJobs()
	w.out.Waits = make([]float64, len(coming))
	for _, j := range coming {
		w.out.Models = append(w.out.Models, j.model)
		w.out.Service = append(w.out.Service, j.service)
		w.out.Arrived = append(w.out.Arrived, j.at)
	}
	for len(coming) > 0 || len(w.queue) > 0 || w.running != nil {
		w.advanceToEvent(&coming, o)
		if !w.loading {
			o.load(w)
		}
		if w.running == nil && len(w.queue) > 0 {
			o.run(w)
		}
		if !w.loading {
			o.load(w)
		}
	}
	w.out.Loads = int(math.Round(w.loads))
	return &w.out
}

// newJobs are the requests of a setting.
func (s Setting) newJobs() []*job {
	rng := rand.New(rand.NewPCG(s.Seed, 23))
	at := 0.0
	var list []*job
	for id := range s.Requests {
		at += rng.ExpFloat64() / s.Rate
		model, u := 0, rng.Float64()
		for u -= s.Shares[0]; u > 0 && model < len(s.Shares)-1; u -= s.Shares[model] {
			model++
		}
		list = append(list, &job{id, model, at, s.Service * (1 + 4*rng.Float64()) / 3})
	}
	return list
}

// advanceToEvent goes to the next event and lets it happen.
func (w *world) advanceToEvent(coming *[]*job, o order) {
	speed := 1.0
	if w.OwnTime && w.loading && w.running != nil {
		speed = 0.5
	}
	d := math.Inf(1)
	if len(*coming) > 0 {
		d = (*coming)[0].at - w.now
	}
	if w.running != nil {
		d = min(d, w.run/speed)
	}
	if w.loading {
		d = min(d, w.load/speed)
	}
	if math.IsInf(d, 1) {
		panic("swaps: requests wait and nothing happens")
	}
	const soon = 1e-9 // rounding
	w.now += d
	w.run -= d * speed
	w.load -= d * speed
	for len(*coming) > 0 && (*coming)[0].at <= w.now+soon {
		w.queue = append(w.queue, (*coming)[0])
		o.arrived(w, (*coming)[0])
		*coming = (*coming)[1:]
	}
	if w.running != nil && w.run <= soon {
		j := w.running
		w.running = nil
		w.out.Waits[j.id] = w.now - j.at
		o.ended(w, j)
	}
	if w.loading && w.load <= soon {
		w.loading = false
		o.loaded(w)
	}
}

// startLoad takes the channel for a part of a model.
func (w *world) startLoad(part float64) {
	w.loading, w.load = true, part*w.Load
	w.loads += part
}

// startRun takes the device for a job that waits.
func (w *world) startRun(j *job) {
	w.queue = slices.DeleteFunc(w.queue, func(other *job) bool { return other == j })
	w.running, w.run = j, j.service
}
