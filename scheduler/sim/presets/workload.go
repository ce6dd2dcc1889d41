package presets

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/merging/published"
)

// Workload is a set of models, each on frames of one camera.
type Workload struct {
	Name   string
	models []published.Entry
}

// Workloads returns the published ones without Faster R-CNN: a pass takes 115 ms, which no deadline of 100 ms allows.
func Workloads() (list []Workload) {
	for _, w := range published.Workloads() {
		models := slices.DeleteFunc(w.Models, func(e published.Entry) bool { return strings.HasPrefix(e.Architecture, "frCNN") })
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

func (m Memory) String() string {
	if m == Least {
		return "least"
	}
	return fmt.Sprintf("%g %%", float64(m)*100)
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

// piece is a chunk of weights and the models that have it.
type piece struct {
	bytes  int64
	models []int
}

// grain is the bytes from which on a tensor is a chunk of its own.
const grain = 16e6

// weightChunks are the weights of a workload. Merged, the k-th layer of one signature is one for all models that have as many.
func (w Workload) weightChunks(merged bool) []piece {
	archs := architecturesByName()
	type tensor struct {
		signature string
		nth       int
		of        int // the model, if nothing is shared
	}
	sizes, members := map[tensor]int64{}, map[tensor][]int{}
	var order []tensor
	shares := make([]float64, len(w.models)) // of the bytes of its layers that a model is said to have
	for i, e := range w.models {
		kinds, total := countLayers(e), int64(0)
		for _, l := range kinds {
			total += l.bytes * int64(l.count)
			for n := range l.count {
				t := tensor{l.signature, n, i}
				if merged {
					t.of = 0
				}
				if members[t] == nil {
					order = append(order, t)
				}
				sizes[t] = l.bytes
				members[t] = append(members[t], i)
			}
		}
		shares[i] = min(1, float64(archs[e.Architecture].weights)/float64(total))
	}
	rest := make([]int64, len(w.models)) // of the model's bytes beside its layers
	for i, e := range w.models {
		rest[i] = archs[e.Architecture].weights
	}
	var list []piece
	small := map[string]*piece{}
	var keys []string
	for _, t := range order {
		p := piece{bytes: sizes[t], models: members[t]}
		for _, i := range p.models {
			p.bytes = min(p.bytes, int64(shares[i]*float64(sizes[t])))
		}
		for _, i := range p.models {
			rest[i] -= p.bytes
		}
		if p.bytes >= grain {
			list = append(list, p)
			continue
		}
		key := fmt.Sprint(p.models)
		s := small[key]
		if s != nil && s.bytes+p.bytes > grain {
			list = append(list, *s)
			s = nil
		}
		if s == nil {
			if small[key] == nil {
				keys = append(keys, key)
			}
			s = &piece{models: p.models}
			small[key] = s
		}
		s.bytes += p.bytes
	}
	for _, key := range keys {
		list = append(list, *small[key])
	}
	for i, bytes := range rest {
		if bytes > 0 {
			list = append(list, piece{bytes, []int{i}})
		}
	}
	return slices.Clip(list)
}
