package presets

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/merging/published"
	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// TestChunks holds the chunks to the models' bytes: merged or not, each model has all of its own.
func TestChunks(t *testing.T) {
	archs := architecturesByName()
	for _, w := range Workloads() {
		for _, merged := range []bool{false, true} {
			bytes := make([]int64, len(w.models))
			for _, p := range w.weightChunks(merged) {
				for _, i := range p.models {
					bytes[i] += p.bytes
				}
			}
			for i, e := range w.models {
				if want := archs[e.Architecture].weights; math.Abs(float64(bytes[i]-want)) > 200 {
					t.Errorf("%s, merged %v: %s has %d bytes, want %d", w.Name, merged, e.Architecture, bytes[i], want)
				}
			}
		}
	}
}

// TestNexusAsPublished compares the Nexus variant with the least shares that its publication simulated, one frame a pass.
func TestNexusAsPublished(t *testing.T) {
	for _, tt := range []struct {
		models []string
		merged bool
		want   [3]float64 // at the least memory, half and three quarters; 0 is not published
	}{
		{[]string{"yolo", "r152", "r50"}, false, [3]float64{.17, .36, .36}},
		{[]string{"vgg", "vgg", "vgg"}, false, [3]float64{.15, .30, .30}},
		{[]string{"r50", "r50", "r152", "r152"}, false, [3]float64{.13, .15, .38}},
		{[]string{"yolo", "yolo", "r50"}, false, [3]float64{.20, .23, .40}},
		{[]string{"ssd-vgg", "vgg", "inception", "tiny-yolo"}, false, [3]float64{.26, .71, .76}},
		{[]string{"yolo", "yolo", "tiny-yolo", "ssd-vgg", "ssd-vgg", "r152"}, false, [3]float64{.13, .24, .31}},
		{[]string{"yolo", "yolo", "r50"}, true, [3]float64{0, .79, 0}},
		{[]string{"r50", "r50", "r152", "r152"}, true, [3]float64{0, .50, 0}},
		{[]string{"yolo", "yolo", "tiny-yolo", "ssd-vgg", "ssd-vgg", "r152"}, true, [3]float64{0, 0, .35}},
	} {
		w := Workload{}
		for i, m := range tt.models {
			w.models = append(w.models, published.Entry{Architecture: m, Feed: fmt.Sprint(i), Classes: 2})
		}
		for k, memory := range []Memory{Least, Half, Three4} {
			a := Feeds{w, memory, tt.merged, 1}.newArrivals()
			least := 0.0
			for _, wait := range []bool{false, true} {
				p := plan{map[string]int{}, map[string]bool{}}
				for _, m := range tt.models {
					p.batch[m], p.wait[m] = 1, wait
				}
				o, err := a.simulate(sim.NewDesk(a.newNexus(p)))
				if err != nil {
					t.Fatal(err)
				}
				least = max(least, o.Least())
			}
			// The published loop overlaps a load beyond the memory's limit, so it is above this one.
			if want := tt.want[k]; want > 0 && (least > want+.03 || least < want-.10) {
				t.Errorf("%v, merged %v, memory %v: the least share is %.2f, published %.2f", tt.models, tt.merged, memory, least, want)
			}
		}
	}
}

// TestAgainstNexus holds the scheduler to its margins where the plans of the other are found quickly. They are for these very
// frames, so the model that is served least may have more of them there.
func TestAgainstNexus(t *testing.T) {
	leasts := map[bool][]float64{false: {1.32, 1.13, 0.8}, true: {0.96, 0.91, 0.96}} // what was measured less .03; below 1 Nexus is ahead
	for _, merged := range []bool{false, true} {
		for i, memory := range []Memory{Least, Half, Three4} {
			var mean, least [2]float64
			for _, w := range Workloads() {
				if len(w.models) > 6 {
					continue
				}
				f := Feeds{w, memory, merged, 1}
				for k, run := range []func() (*FeedsOutcome, error){f.Run, f.RunNexus} {
					o, err := run()
					if err != nil {
						t.Fatal(err)
					}
					mean[k] += o.Mean()
					least[k] += o.Least()
				}
			}
			if mean[0] < 1.05*mean[1] || least[0] < leasts[merged][i]*least[1] {
				t.Errorf("merged %v, memory %v: mean %.2f and least %.2f of three workloads, Nexus %.2f and %.2f",
					merged, memory, mean[0], least[0], mean[1], least[1])
			}
		}
	}
}

// TestNoModelIsForgotten: under the scheduler every model has a frame at least every two seconds.
func TestNoModelIsForgotten(t *testing.T) {
	for _, w := range Workloads() {
		for _, memory := range []Memory{Least, Half} {
			for _, merged := range []bool{false, true} {
				o, err := Feeds{w, memory, merged, 2}.Run()
				if err != nil {
					t.Fatal(err)
				}
				if o.Gap > 2 {
					t.Errorf("%s, memory %v, merged %v: a model has no frame for %.1f s", w.Name, memory, merged, o.Gap)
				}
			}
		}
	}
}

func TestSameSeedSameFrames(t *testing.T) {
	f := Feeds{Workloads()[0], Half, false, 3}
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
