package presets

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Workload is a set of models, each on frames of one camera.
type Workload struct {
	Name   string
	models []entry
}

// entry is one model of a workload: its architecture, its camera, and how many classes it knows.
type entry struct {
	arch, feed string
	classes    int
}

// workloadsText are the workloads of the GEMEL paper's appendix, as far as they are legible there: architecture, feed
// and classes of each model. Faster R-CNN is left out: a pass takes 115 ms, which no deadline of 100 ms allows.
const workloadsText = `
LP1 r101 A1 4, r50 A2 4, r152 A3 2, mnet A4 3, yolo A5 1, tiny-yolo A1 1, ssd-vgg A6 1, ssd-vgg A1 1, ssd-mnet A5 1, ssd-mnet A4 1, ssd-mnet A6 1, inception A3 2
LP2 r152 B1 2, r101 B2 4, ssd-vgg B3 1
LP3 ssd-mnet B4 1, r152 B1 2, r18 B3 5, inception B1 2
MP1 r50 B2 4, r50 B1 2, r152 B3 5, r152 B4 4, r18 B5 4, r18 B4 4, tiny-yolo B3 1, tiny-yolo B2 1, yolo B5 1, yolo B1 1, ssd-vgg B4 1, ssd-vgg B3 1, inception B3 5
MP2 r50 B3 5, r50 B1 2, r152 B3 5, r18 B5 4, ssd-mnet B1 1, ssd-mnet B2 1
HP2 r50 B3 5, r18 B3 5, ssd-mnet B3 1, ssd-mnet B1 1, mnet B4 4, yolo B3 1, tiny-yolo B5 1, tiny-yolo B1 1, vgg B4 4, inception B2 4, inception B3 5
HP3 yolo A3 1, yolo A3 1, yolo A1 1, yolo A7 1, yolo A7 1, yolo A7 1, yolo A7 1, yolo A5 1, yolo A5 1, yolo A6 1, r152 A3 2, r152 A1 4, r152 A7 4, r152 A6 3, r152 A2 4, r152 A4 3, r50 A3 2, r50 A7 4, r50 A6 3, r50 A2 4, r50 A6 3, ssd-vgg A3 1, ssd-vgg A1 1, ssd-vgg A5 1, ssd-vgg A6 1, ssd-vgg A4 1, vgg A2 4, r18 A2 4
HP4 yolo B1 1, yolo B5 1, tiny-yolo B2 1, tiny-yolo B1 1, tiny-yolo B3 1, ssd-vgg B5 1, ssd-vgg B3 1, ssd-mnet B5 1, ssd-mnet B3 1, ssd-mnet B2 1, ssd-mnet B1 1, mnet B3 5, mnet B5 4, r152 B4 4, r152 B3 5, r152 B1 2
HP6 yolo A3 1, yolo A3 1, yolo A1 1, yolo A7 1, yolo A7 1, yolo A7 1, r101 A1 4, r101 A7 4, r101 A6 3, r101 A1 4, r152 A3 2, r152 A1 4, r152 A7 4, r152 A6 3, r152 A2 4, r152 A4 3, r50 A3 2, r50 A7 4, r50 A6 3, r50 A2 4, r50 A6 3, tiny-yolo A1 1, tiny-yolo A5 1, inception A3 2, inception A1 4, inception A7 4, inception A6 3, inception A4 3, vgg A2 4, r18 A2 4, r18 A2 4, r18 A2 4
`

// Workloads returns the nine workloads.
func Workloads() []Workload {
	var list []Workload
	for _, line := range strings.Split(strings.TrimSpace(workloadsText), "\n") {
		name, models, _ := strings.Cut(line, " ")
		w := Workload{Name: name}
		for _, m := range strings.Split(models, ", ") {
			var e entry
			if _, err := fmt.Sscanf(m, "%s %s %d", &e.arch, &e.feed, &e.classes); err != nil {
				panic("workloads: " + m)
			}
			w.models = append(w.models, e)
		}
		list = append(list, w)
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
		a := archs[e.arch]
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
		kinds, total := readLayers(e.arch, e.classes), int64(0)
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
		shares[i] = min(1, float64(archs[e.arch].weights)/float64(total))
	}
	rest := make([]int64, len(w.models)) // of the model's bytes beside its layers
	for i, e := range w.models {
		rest[i] = archs[e.arch].weights
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
