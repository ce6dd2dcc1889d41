package swaps

import "github.com/prefillonly/prefillonly/scheduler/residency"

// parts is into how many chunks a model is cut: a layer each.
const parts = 24

// aging is what orders the jobs of one model: by their seconds, less so many for each second that they have waited.
const aging = 0.05

// Residency simulates a setting in the order of scheduler/residency.
func Residency(s Setting) (*Outcome, error) {
	o := &ours{memory: residency.NewMemory(int64(s.Room)*parts, s.OwnTime), jobs: make([][]*job, len(s.Shares)), arrivals: make([]residency.Arrivals, len(s.Shares))}
	for m := range s.Shares {
		spec := residency.Spec{Rate: parts / s.Load}
		for p := range parts {
			spec.Chunks = append(spec.Chunks, residency.SizedChunk{Chunk: residency.Chunk(m*parts + p), Bytes: 1})
		}
		if err := o.memory.Register(residency.ModelID(m), spec); err != nil {
			return nil, err
		}
	}
	return simulateSetting(s, o), nil
}

type ours struct {
	memory   *residency.Memory
	jobs     [][]*job // that wait, by model
	arrivals []residency.Arrivals
	loads    residency.Chunk
	demands  []residency.Demand
}

// headJob is the job of a model that runs next, and its demand's work.
func (o *ours) headJob(w *world, model int) (*job, residency.Requests) {
	var best *job
	for _, j := range o.jobs[model] {
		if best == nil || j.service+aging*j.at < best.service+aging*best.at {
			best = j
		}
	}
	if best == nil {
		return nil, residency.Requests{Service: w.Service, Next: o.arrivals[model].Next(w.now)}
	}
	return best, residency.Requests{Service: best.service, Waited: w.now - best.at, Jobs: len(o.jobs[model])}
}

func (o *ours) currentDemands(w *world) []residency.Demand {
	o.demands = o.demands[:0]
	for m := range o.jobs {
		j, work := o.headJob(w, m)
		if j != nil || o.memory.Ready(residency.ModelID(m)) {
			o.demands = append(o.demands, residency.Demand{Model: residency.ModelID(m), Work: work, Idle: j == nil})
		}
	}
	return o.demands
}

func (o *ours) arrived(w *world, j *job) {
	o.jobs[j.model] = append(o.jobs[j.model], j)
	o.arrivals[j.model].Add(w.now)
}

func (o *ours) load(w *world) {
	if w.OwnTime && w.running != nil {
		return
	}
	if a, ok := o.memory.Next(o.currentDemands(w)); ok {
		o.loads = a.Load
		w.startLoad(1.0 / parts)
	}
}

func (o *ours) loaded(*world) { o.memory.Loaded(o.loads) }

func (o *ours) run(w *world) {
	if w.OwnTime && w.loading {
		return
	}
	var best *job
	var least float64
	for m := range o.jobs {
		j, work := o.headJob(w, m)
		if j != nil && o.memory.Ready(residency.ModelID(m)) && (best == nil || work.Key(0, 0) < least) {
			best, least = j, work.Key(0, 0)
		}
	}
	if best == nil {
		return
	}
	if _, ok := o.memory.Begin(residency.ModelID(best.model), 0, o.demands); !ok {
		return
	}
	for i, j := range o.jobs[best.model] {
		if j == best {
			o.jobs[best.model] = append(o.jobs[best.model][:i], o.jobs[best.model][i+1:]...)
			break
		}
	}
	w.startRun(best)
}

func (o *ours) ended(_ *world, j *job) { o.memory.End(residency.ModelID(j.model), 0) }
