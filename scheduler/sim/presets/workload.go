package presets

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/published"
)

// Workload is a set of models, each on frames of one camera.
type Workload struct {
	Name   string
	models []published.Entry
}

// Workloads returns the published ones without models of which a pass takes longer than a frame lives: Faster R-CNN, 115 ms.
func Workloads(lives time.Duration) (list []Workload) {
	archs := architecturesByName()
	for _, w := range published.Workloads() {
		models := slices.DeleteFunc(w.Models, func(e published.Entry) bool { return archs[e.Architecture].run[0] > lives })
		list = append(list, Workload{w.Name, models})
	}
	return list
}

// Memory is how much of what a workload needs a device has.
type Memory float64

// The published settings: room for the model that needs most, and half and three quarters of the way to all.
const (
	Least  Memory = 0
	Half   Memory = 0.5
	Three4 Memory = 0.75
)

// Memories are those.
var Memories = []Memory{Least, Half, Three4}

func (m Memory) String() string {
	if m == Least {
		return "least"
	}
	return fmt.Sprintf("%g %%", float64(m)*100)
}

// FullMemory is the bytes for all weights and the pass that needs most beside them, of so many frames each.
func (w Workload) FullMemory(batch int) (bytes int64) {
	archs, most := architecturesByName(), int64(0)
	for _, e := range w.models {
		a := archs[e.Architecture]
		bytes += a.weights
		most = max(most, a.area[batch-1])
	}
	return bytes + most
}

// deviceCapacity is the bytes of a device for weights and work areas, 0.8 GB less than published: those are CUDA's.
func (w Workload) deviceCapacity(share Memory) int64 {
	const mega = 1e6
	archs := architecturesByName()
	all, most, weights := 0.0, 0.0, 0.0
	for _, e := range w.models {
		a := archs[e.Architecture]
		all += float64(a.weights)
		if with := float64(a.weights + a.area[0]); with > most {
			most, weights = with, float64(a.weights)
		}
	}
	least := math.Ceil(most/mega/10) * 10 * mega
	return int64(least + float64(share)*(all+most-weights-least))
}

// Sharing is how much of what models could share at most they do: groups of layers, those that save most first, until they save so
// much.
type Sharing float64

// What is compared: nothing, about what the paper's merges reach, and all.
const (
	Unmerged Sharing = 0
	Merged   Sharing = 0.6
	Optimal  Sharing = 1
)

func (s Sharing) String() string {
	switch s {
	case Unmerged:
		return "none"
	case Optimal:
		return "most"
	}
	return fmt.Sprintf("%g %%", float64(s)*100)
}

// networks are the layers of the models.
func (w Workload) networks() (list []merging.Model) {
	for _, e := range w.models {
		list = append(list, merging.Model{Name: e.Architecture, Layers: published.Layers(e.Architecture, e.Classes)})
	}
	return list
}

// sharedGroups are the layers that are shared.
func (w Workload) sharedGroups(s Sharing) []merging.Group {
	plan := merging.NewPlan(w.networks())
	want, saved := float64(s)*float64(plan.Shared()), 0.0
	for i, g := range plan.Groups {
		if saved >= want {
			return plan.Groups[:i]
		}
		saved += float64(g.Saved())
	}
	return plan.Groups
}

// sharedBytes is what each model has in common with each other.
func (w Workload) sharedBytes(s Sharing) [][]int64 {
	shared := make([][]int64, len(w.models))
	for i := range shared {
		shared[i] = make([]int64, len(w.models))
	}
	for _, g := range w.sharedGroups(s) {
		for _, a := range g.Members {
			for _, b := range g.Members {
				shared[a.Model][b.Model] += g.Bytes
			}
		}
	}
	return shared
}

// arrangeModels puts beside each other what shares most, beginning with the first model.
func arrangeModels(shared [][]int64) (turns []int) {
	left := make([]int, len(shared))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		next := 0
		if len(turns) > 0 {
			last := turns[len(turns)-1]
			for k, i := range left {
				if shared[last][i] > shared[last][left[next]] {
					next = k
				}
			}
		}
		turns = append(turns, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return turns
}

// piece is a chunk of weights and the models that have it.
type piece struct {
	bytes  int64
	models []int
}

// How weights come and go: tensors from so many bytes on alone, or all that the same models have at once.
const (
	byTensor int64 = 16e6
	byModel  int64 = 1 << 60
)

// weightChunks are the weights of a workload: tensors of the grain and more alone, smaller ones of the same models together up to it.
func (w Workload) weightChunks(s Sharing, grain int64) []piece {
	var list []piece
	small := map[string]*piece{}
	var keys []string
	for _, p := range w.tensors(s) {
		if p.bytes >= grain {
			list = append(list, p)
			continue
		}
		key := fmt.Sprint(p.models)
		together := small[key]
		if together != nil && together.bytes+p.bytes > grain {
			list = append(list, *together)
			together.bytes = 0
		}
		if together == nil {
			keys = append(keys, key)
			together = &piece{models: p.models}
			small[key] = together
		}
		together.bytes += p.bytes
	}
	for _, key := range keys {
		list = append(list, *small[key])
	}
	return slices.Clip(list)
}

// tensors are the layers of all models, those that are shared once, and what each model has beside its layers. A layer is made
// smaller where its model is said to have fewer bytes than its layers.
func (w Workload) tensors(s Sharing) (list []piece) {
	archs, networks := architecturesByName(), w.networks()
	rest, shares := make([]int64, len(networks)), make([]float64, len(networks))
	for i, m := range networks {
		rest[i] = archs[m.Name].weights
		shares[i] = min(1, float64(rest[i])/float64(m.Bytes()))
	}
	of := map[merging.Member][]merging.Member{}
	for _, g := range w.sharedGroups(s) {
		for _, member := range g.Members {
			of[member] = g.Members
		}
	}
	for i, m := range networks {
		for _, l := range m.Layers {
			members := of[merging.Member{Model: i, Layer: l.Name}]
			if members == nil {
				members = []merging.Member{{Model: i}}
			}
			if members[0].Model != i {
				continue
			}
			p := piece{bytes: l.Bytes}
			for _, k := range members {
				p.models = append(p.models, k.Model)
				p.bytes = min(p.bytes, int64(shares[k.Model]*float64(l.Bytes)))
			}
			for _, k := range p.models {
				rest[k] -= p.bytes
			}
			list = append(list, p)
		}
	}
	for i, bytes := range rest {
		if bytes > 0 {
			list = append(list, piece{bytes, []int{i}})
		}
	}
	return list
}
