package presets

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// Scheduler names the real scheduler among the orders that are compared.
const Scheduler = "scheduler"

// Servers lists the orders of other servers, by name. They load whole models:
//
//   - fcfs+lru: first come first served; the model that was used longest ago makes room.
//   - ollama: a request goes to its model's runner if there is one, in order of arrival; the first one that has none
//     holds up all behind it until an idle runner, or else the one that is idle first, is gone and its own is loaded.
//   - llama-swap fifo: as fcfs+lru, one model at a time: its default.
//   - llama-swap collated: requests for what is loaded go first, in order of arrival; when there are none, the
//     model of the oldest request is loaded in place of the one used longest ago.
func Servers() []string {
	return []string{"fcfs+lru", "ollama", "llama-swap fifo", "llama-swap collated"}
}

// server is an order of whole models and one queue.
type server struct {
	collated bool
	runners  bool // requests whose model is there are with it, and keep it
	room     int
	queue    []*sim.Job
	recent   []int // models that are there, the one used last at the end
	coming   int   // -1: none
	busy     int   // the model of the job that runs
	given    int   // requests at the head of the queue that runners have
}

// newServer makes the order of a server whose device has room for so many models.
func newServer(name string, room int) (*sim.Desk, error) {
	if !slices.Contains(Servers(), name) {
		return nil, fmt.Errorf("unknown server %q: want one of %q", name, Servers())
	}
	if name == "llama-swap fifo" {
		room = 1
	}
	return sim.NewDesk(&server{collated: name == "llama-swap collated", runners: name == "ollama", room: room, coming: -1}), nil
}

// Decide implements sim.Order.
func (o *server) Decide(d *sim.Desk) {
	o.queue = append(o.queue, d.Arrived...)
	if o.coming >= 0 && !d.Loading {
		o.recent, o.coming = append(o.recent, o.coming), -1
	}
	o.loadModel(d)
	o.runBatch(d)
	o.loadModel(d)
}

func (o *server) isLoaded(m int) bool { return slices.Contains(o.recent, m) }

// nextJob is the position of the job that goes next: of what is there, if that has any and the order allows it, or the
// first; -1 if none waits.
func (o *server) nextJob() int {
	if o.collated {
		if i := slices.IndexFunc(o.queue, func(j *sim.Job) bool { return o.isLoaded(j.Model) }); i >= 0 {
			return i
		}
	}
	return min(0, len(o.queue)-1)
}

// giveRequests gives runners the requests that are theirs, up to the first that has none; -1 if there is no such.
func (o *server) giveRequests() int {
	for o.given < len(o.queue) {
		if !o.isLoaded(o.queue[o.given].Model) {
			return o.given
		}
		o.given++
	}
	return -1
}

// loadModel begins to load the model of the job that goes next. One that waits for the pass of now evicts it after that.
func (o *server) loadModel(d *sim.Desk) {
	if d.Loading || d.Running && !o.runners {
		return
	}
	next := o.nextJob()
	if o.runners {
		next = o.giveRequests()
	}
	if next < 0 || o.isLoaded(o.queue[next].Model) {
		return
	}
	if len(o.recent) == o.room {
		i := slices.IndexFunc(o.recent, func(m int) bool { return !o.hasRequests(d, m) })
		if i < 0 {
			return
		}
		d.Drop(piecesOf(o.recent[i]))
		o.recent = slices.Delete(o.recent, i, i+1)
	}
	o.coming = o.queue[next].Model
	d.Load(o.coming, piecesOf(o.coming))
}

// piecesOf are the weights of a model.
func piecesOf(m int) (pieces []uint32) {
	for p := range parts {
		pieces = append(pieces, uint32(m*parts+p))
	}
	return pieces
}

// hasRequests says whether a runner has requests.
func (o *server) hasRequests(d *sim.Desk, m int) bool {
	return d.Running && o.busy == m || slices.ContainsFunc(o.queue[:o.given], func(j *sim.Job) bool { return j.Model == m })
}

func (o *server) runBatch(d *sim.Desk) {
	if d.Running || d.Loading && !o.runners {
		return
	}
	next := o.nextJob()
	if o.runners {
		if next = -1; o.given > 0 {
			next = 0
			o.given--
		}
	}
	if next < 0 || !o.isLoaded(o.queue[next].Model) {
		return
	}
	j := o.queue[next]
	o.queue = slices.Delete(o.queue, next, next+1)
	o.recent = append(slices.DeleteFunc(o.recent, func(m int) bool { return m == j.Model }), j.Model)
	o.busy = j.Model
	d.Run(j)
}
