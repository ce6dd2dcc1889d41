package presets

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/merging/published"
	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// TestChunks holds the chunks to the models' bytes: merged or not, each model has all of its own.
func TestChunks(t *testing.T) {
	archs := architecturesByName()
	for _, w := range Workloads(ShortLife) {
		for _, sharing := range []Sharing{Unmerged, Merged, Optimal} {
			bytes := make([]int64, len(w.models))
			for _, p := range w.weightChunks(sharing, byTensor) {
				for _, i := range p.models {
					bytes[i] += p.bytes
				}
			}
			for i, e := range w.models {
				if want := archs[e.Architecture].weights; bytes[i] != want && (bytes[i] > want || bytes[i] < want-200) {
					t.Errorf("%s, sharing %v: %s has %d bytes, want %d", w.Name, sharing, e.Architecture, bytes[i], want)
				}
			}
		}
	}
}

// TestNexusAsPublished compares the least shares under the Nexus variant with the published ones, one frame a pass. The published loop
// lets a load overlap the pass before it beyond the memory's limit, which this device does not, so it is above by up to 0.09; and it knows of
// what is resident only what the best partner has, so where models are merged it is up to 0.05 off either way.
func TestNexusAsPublished(t *testing.T) {
	equal, all := 0, 0
	for _, c := range published.Cases() {
		if c.Rate != rate || c.Impossible || c.Shares[0] == 0 { // Faster R-CNN has no frame in time in either
			continue
		}
		w := Workload{}
		for i, m := range c.Architectures {
			w.models = append(w.models, published.Entry{Architecture: m, Feed: fmt.Sprint(i), Classes: 4})
		}
		a := Feeds{Workload: w, Memory: Memory(c.Memory), Sharing: Sharing(c.Sharing), Lives: time.Duration(c.Lives) * time.Millisecond, ByModel: true, Seed: 1}.newArrivals()
		least := 0.0
		for _, wait := range []bool{false, true} {
			o, err := a.simulate(sim.NewDesk(a.newNexus(w.uniformPlan(choice{1, wait}))))
			if err != nil {
				t.Fatal(err)
			}
			least = max(least, o.Least())
		}
		want := slices.Min(c.Shares)
		all++
		if math.Abs(least-want) <= .03 {
			equal++
		}
		if c.Sharing == 0 && (least > want+.03 || least < want-.10) || c.Sharing > 0 && math.Abs(least-want) > .05 {
			t.Errorf("%v: the least share is %.2f", c, least)
		}
	}
	if t.Logf("%d of %d cases are within 0.03", equal, all); equal < 20 {
		t.Error("fewer than 20 are")
	}
}

// TestMergedModelsStay: where two models lie wholly in two others, nothing is loaded twice in half of the memory.
func TestMergedModelsStay(t *testing.T) {
	w := Workload{}
	for i, m := range []string{"r50", "r50", "r152", "r152"} {
		w.models = append(w.models, published.Entry{Architecture: m, Feed: fmt.Sprint(i), Classes: 4})
	}
	all := int64(0)
	for _, p := range w.weightChunks(Optimal, byTensor) {
		all += p.bytes
	}
	o, err := Feeds{Workload: w, Memory: Half, Sharing: Optimal, Seed: 1}.Run()
	if err != nil {
		t.Fatal(err)
	}
	if loaded := o.Loaded * span.Seconds(); math.Abs(loaded-float64(all)) > 1 {
		t.Errorf("%.0f bytes are loaded, of %d", loaded, all)
	}
}

// TestTensorsMakeRoomBetter: where half of the memory is there, the Nexus variant serves more frames if it evicts tensors instead of
// models.
func TestTensorsMakeRoomBetter(t *testing.T) {
	models, tensors := 0.0, 0.0
	for _, w := range Workloads(ShortLife) {
		if w.Name != "LP2" && w.Name != "MP2" {
			continue
		}
		f := Feeds{Workload: w, Memory: Half, Seed: 1}
		whole, err := f.RunNexus()
		if err != nil {
			t.Fatal(err)
		}
		parts, err := f.RunNexusByTensor()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.3f and %.3f of the least by models, %.3f and %.3f by tensors", w.Name, whole.Mean(), whole.Least(), parts.Mean(), parts.Least())
		models, tensors = models+whole.Mean(), tensors+parts.Mean()
	}
	if tensors < 1.1*models {
		t.Errorf("%.3f of the frames by tensors, %.3f by models", tensors/2, models/2)
	}
}

// TestAgainstNexus holds the scheduler to its margins where the plans of the other are found quickly. They are for these very
// frames, so the model that is served least may have more of them there.
func TestAgainstNexus(t *testing.T) {
	leasts := map[Sharing][]float64{Unmerged: {1.32, 1.13, 0.8}, Optimal: {0.96, 0.91, 0.96}} // what was measured less .03; below 1 Nexus is ahead
	for _, sharing := range []Sharing{Unmerged, Optimal} {
		for i, memory := range []Memory{Least, Half, Three4} {
			var mean, least [2]float64
			for _, w := range Workloads(ShortLife) {
				if len(w.models) > 6 {
					continue
				}
				f := Feeds{Workload: w, Memory: memory, Sharing: sharing, Seed: 1}
				for k, run := range []func() (*FeedsOutcome, error){f.Run, f.RunNexus} {
					o, err := run()
					if err != nil {
						t.Fatal(err)
					}
					mean[k] += o.Mean()
					least[k] += o.Least()
				}
			}
			if mean[0] < 1.05*mean[1] || least[0] < leasts[sharing][i]*least[1] {
				t.Errorf("sharing %v, memory %v: mean %.2f and least %.2f of three workloads, Nexus %.2f and %.2f",
					sharing, memory, mean[0], least[0], mean[1], least[1])
			}
		}
	}
}

// TestNoModelIsForgotten: under the scheduler every model has a frame at least every two seconds.
func TestNoModelIsForgotten(t *testing.T) {
	for _, w := range Workloads(ShortLife) {
		for _, memory := range []Memory{Least, Half} {
			for _, sharing := range []Sharing{Unmerged, Optimal} {
				o, err := Feeds{Workload: w, Memory: memory, Sharing: sharing, Seed: 2}.Run()
				if err != nil {
					t.Fatal(err)
				}
				if o.Gap > 2 {
					t.Errorf("%s, memory %v, sharing %v: a model has no frame for %.1f s", w.Name, memory, sharing, o.Gap)
				}
			}
		}
	}
}

func TestSameSeedSameFrames(t *testing.T) {
	f := Feeds{Workload: Workloads(ShortLife)[0], Memory: Half, Seed: 3}
	first, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	again, _ := f.Run()
	f.Seed = 4
	other, _ := f.Run()
	if !reflect.DeepEqual(first, again) || reflect.DeepEqual(first, other) {
		t.Errorf("seed 3 gives %v, then %v, seed 4 %v", first, again, other)
	}
}
