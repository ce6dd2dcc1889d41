package inspect

import (
	"context"
	"slices"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/catalog"
	"github.com/prefillonly/prefillonly/engine/weights/store"
)

// Comparison is what two checkpoints share.
type Comparison struct {
	A           Side         `json:"a"`
	B           Side         `json:"b"`
	Differences []Difference `json:"differences"`
	Device      *Device      `json:"device,omitempty"` // nil where one of the two cannot be served
	HashedBytes int64        `json:"hashed_bytes"`     // that were read to find out
}

// Side is one of two checkpoints. Shared is what the other has too, under whatever name.
type Side struct {
	Path          string  `json:"path"`
	Tensors       int     `json:"tensors"`
	Bytes         int64   `json:"bytes"`
	SharedTensors int     `json:"shared_tensors"`
	SharedBytes   int64   `json:"shared_bytes"`
	Share         float64 `json:"share"` // of the bytes
}

// Difference is a tensor that the other checkpoint has not.
type Difference struct {
	Tensor
	In  string `json:"in"`  // a, b or both: with other content in both
	Why string `json:"why"` // missing, form or content
}

// Device is what the models take on a device that computes in bfloat16, as expected.
type Device struct {
	A        int64    `json:"a_bytes"`
	B        int64    `json:"b_bytes"`
	Together int64    `json:"together_bytes"`
	Chunks   int      `json:"chunks"`        // of B
	Shared   int      `json:"shared_chunks"` // of B, that A has too
	Differ   []string `json:"differing"`     // the others' names
	Load     int64    `json:"load_bytes"`    // that loading B adds while A is there
}

// Compare finds out what a and b share. It may read both of them through, as catalog.Add does.
func Compare(ctx context.Context, a, b *Checkpoint, known *catalog.Catalog, progress func(done, total int64)) (*Comparison, error) {
	c := &Comparison{}
	tell := func(done, total int64) {
		c.HashedBytes = total
		if progress != nil {
			progress(done, total)
		}
	}
	for _, m := range []*Checkpoint{a, b} {
		if err := known.Add(ctx, m.checkpoint, tell); err != nil {
			return nil, err
		}
	}
	c.A, c.B = newSide(a, b), newSide(b, a)
	c.Differences = listDifferences(a, b)
	a.describeChunks()
	b.describeChunks()
	if a.Refused == "" && b.Refused == "" {
		c.Device = deviceTotals(a, b)
	}
	return c, nil
}

// contentIDs are the contents of a checkpoint.
func (m *Checkpoint) contentIDs() map[weights.ID]bool {
	ids := map[weights.ID]bool{}
	for _, t := range m.Tensors {
		ids[m.checkpoint.Alone(t.Name)] = true
	}
	return ids
}

func newSide(m, other *Checkpoint) Side {
	s, there := Side{Path: m.Path, Tensors: len(m.Tensors), Bytes: m.Bytes}, other.contentIDs()
	for _, t := range m.Tensors {
		if there[m.checkpoint.Alone(t.Name)] {
			s.SharedTensors++
			s.SharedBytes += t.Bytes
		}
	}
	if s.Bytes > 0 {
		s.Share = float64(s.SharedBytes) / float64(s.Bytes)
	}
	return s
}

// listDifferences lists the tensors of a that b has not, and those of b that a has not.
func listDifferences(a, b *Checkpoint) []Difference {
	list := []Difference{}
	inA, inB := a.contentIDs(), b.contentIDs()
	for _, t := range a.Tensors {
		if inB[a.checkpoint.Alone(t.Name)] {
			continue
		}
		d := Difference{t, "a", b.missingReason(t)}
		if d.Why == "content" && !inA[b.checkpoint.Alone(t.Name)] {
			d.In = "both"
		}
		list = append(list, d)
	}
	for _, t := range b.Tensors {
		if inA[b.checkpoint.Alone(t.Name)] {
			continue
		}
		d := Difference{t, "b", a.missingReason(t)}
		if d.Why == "content" && !inB[a.checkpoint.Alone(t.Name)] {
			continue // it is listed above
		}
		list = append(list, d)
	}
	return list
}

// missingReason says how m comes not to have a tensor.
func (m *Checkpoint) missingReason(t Tensor) string {
	for _, own := range m.Tensors {
		switch {
		case own.Name != t.Name:
		case own.Type != t.Type || !slices.Equal(own.Shape, t.Shape):
			return "form"
		default:
			return "content"
		}
	}
	return "missing"
}

// deviceTotals adds up the parts that a store would hold.
func deviceTotals(a, b *Checkpoint) *Device {
	d := &Device{Differ: []string{}}
	held, chunks := map[store.Key]bool{}, map[store.Key]bool{}
	count := func(infos []store.Info) (sum int64) {
		for _, info := range infos {
			for _, p := range info.Parts {
				if !held[p.Key] {
					held[p.Key] = true
					sum += p.Bytes
				}
			}
		}
		return sum
	}
	d.A = count(a.chunks)
	for _, info := range a.chunks {
		chunks[info.Key] = true
	}
	d.Load = count(b.chunks)
	d.Together = d.A + d.Load
	d.B = b.DeviceBytes
	for _, info := range b.chunks {
		if d.Chunks++; chunks[info.Key] {
			d.Shared++
		} else {
			d.Differ = append(d.Differ, info.Name)
		}
	}
	return d
}
