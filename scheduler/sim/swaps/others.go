package swaps

import "slices"

// Others lists the orders of other servers, by name.
func Others() []string {
	return []string{"fcfs+lru", "ollama", "llama-swap fifo", "llama-swap collated"}
}

// Other simulates a setting in the order of another server, which loads whole models:
//
//   - fcfs+lru: first come first served; the model that was used longest ago makes room.
//   - ollama: a request goes to its model's runner if there is one, in order of arrival; the first one that has none
//     holds up all behind it until an idle runner, or else the one that is idle first, is gone and its own is loaded.
//   - llama-swap fifo: as fcfs+lru, one model at a time: its default.
//   - llama-swap collated: requests for what is loaded go first, in order of arrival; when there are none, the
//     model of the oldest request is loaded in place of the one used longest ago.
func Other(s Setting, name string) *Outcome {
	o := &other{collated: name == "llama-swap collated", runners: name == "ollama", room: s.Room, busy: -1}
	if name == "llama-swap fifo" {
		o.room = 1
	}
	return simulateSetting(s, o)
}

// other is an order of whole models and one queue.
type other struct {
	collated bool
	runners  bool // requests whose model is there are with it, and keep it
	room     int
	recent   []int // models that are there, the one used last at the end
	coming   int
	busy     int    // the model of the job that runs; -1: none
	given    []*job // to runners
}

func (o *other) isLoaded(m int) bool { return slices.Contains(o.recent, m) }

func (o *other) arrived(*world, *job) {}

// nextJob is the job that goes next: of what is there, if that has any and the order allows it, or the first.
func (o *other) nextJob(w *world) *job {
	if o.collated {
		for _, j := range w.queue {
			if o.isLoaded(j.model) {
				return j
			}
		}
	}
	if len(w.queue) == 0 {
		return nil
	}
	return w.queue[0]
}

// giveRequests gives runners the requests that are theirs, up to the first that has none.
func (o *other) giveRequests(w *world) (first *job) {
	for _, j := range w.queue {
		if slices.Contains(o.given, j) {
			continue
		}
		if !o.isLoaded(j.model) {
			return j
		}
		o.given = append(o.given, j)
	}
	return nil
}

// load begins to load the model of the job that goes next. One that waits for the pass of now evicts it after that.
func (o *other) load(w *world) {
	j := o.nextJob(w)
	if o.runners {
		j = o.giveRequests(w)
	}
	if j == nil || o.isLoaded(j.model) || w.running != nil && !o.runners {
		return
	}
	if len(o.recent) == o.room {
		i := slices.IndexFunc(o.recent, func(m int) bool { return !o.hasRequests(m) })
		if i < 0 {
			return
		}
		o.recent = slices.Delete(o.recent, i, i+1)
	}
	o.coming = j.model
	w.startLoad(1)
}

// hasRequests says whether a runner has requests.
func (o *other) hasRequests(m int) bool {
	return o.busy == m || slices.ContainsFunc(o.given, func(j *job) bool { return j.model == m })
}

func (o *other) loaded(*world) { o.recent = append(o.recent, o.coming) }

func (o *other) run(w *world) {
	var j *job
	switch {
	case o.runners && len(o.given) > 0:
		j = o.given[0]
		o.given = o.given[1:]
	case !o.runners && !w.loading:
		j = o.nextJob(w)
	}
	if j == nil || !o.isLoaded(j.model) {
		return
	}
	o.recent = append(slices.DeleteFunc(o.recent, func(m int) bool { return m == j.model }), j.model)
	o.busy = j.model
	w.startRun(j)
}

func (o *other) ended(*world, *job) { o.busy = -1 }
