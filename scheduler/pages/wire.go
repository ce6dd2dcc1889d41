package pages

import (
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// Saves takes the copies to host memory that go with the next pass.
func (c *Cache) Saves() (saves []wire.Copy) {
	saves, c.saves = c.saves, nil
	return saves
}

// AppendLoads adds the copies from host memory that a job's pass begins with.
func AppendLoads(to []wire.Copy, j *queue.Job) []wire.Copy {
	for _, c := range j.Lease.Loads {
		to = append(to, wire.Copy{Device: wire.BlockID(c.Device), Host: wire.BlockID(c.Host)})
	}
	return to
}

// Of are a job's pages in the form that travels.
func Of(j *queue.Job) []wire.BlockID {
	ids := make([]wire.BlockID, len(j.Lease.Pages))
	for i, p := range j.Lease.Pages {
		ids[i] = wire.BlockID(p)
	}
	return ids
}

// PartOf is what a job's pass is to copy from a block of another one.
func PartOf(j *queue.Job) wire.Part {
	if j.Continues() || j.Lease.Part.Tokens == 0 {
		return wire.Part{}
	}
	return wire.Part{Block: wire.BlockID(j.Lease.Part.Page), Tokens: j.Lease.Part.Tokens}
}
