package presets

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// threeModels is three models of which two fit, on a CPU, at a load that leaves a third of its time.
func threeModels(seed uint64) Swaps {
	return Swaps{Shares: []float64{.6, .3, .1}, Room: 2, Load: .5, Service: .15, Rate: .65 / .15, OwnTime: true, Requests: 2000, Seed: seed}
}

func swapped(t *testing.T, s Swaps, server string) *SwapsOutcome {
	t.Helper()
	o, err := s.Run(server)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestAgainstOthers holds the order to its margins over other servers'.
func TestAgainstOthers(t *testing.T) {
	all := map[string]*SwapsOutcome{}
	for seed := range uint64(3) {
		for _, name := range append(Servers(), Scheduler) {
			if all[name] == nil {
				all[name] = &SwapsOutcome{}
			}
			o := swapped(t, threeModels(seed), name)
			all[name].Loads += o.Loads
			all[name].Waits = append(all[name].Waits, o.Waits...)
		}
	}
	ours := all[Scheduler]
	for _, name := range Servers() {
		o := all[name]
		fewer := 1.8
		if name == "llama-swap collated" {
			fewer = 1 // it lets the others wait for as long as what is there has any
		}
		if o.Mean() < ours.Mean() || float64(o.Loads) < fewer*float64(ours.Loads) {
			t.Errorf("%d loads, mean %.2f s; %s has %d, %.2f s", ours.Loads, ours.Mean(), name, o.Loads, o.Mean())
		}
	}
}

// TestNobodyStarves holds residency.Requests to its word where two models have more than the device can do and a third
// is hardly asked for: a job of that one is overtaken by what comes within c/residency.Aging after it and by nothing later, c being
// its seconds, its model's load and as much again. So it waits for the work of that time, and of what was there.
func TestNobodyStarves(t *testing.T) {
	for _, ownTime := range []bool{false, true} {
		s := threeModels(5)
		s.Shares, s.OwnTime, s.Rate, s.Requests = []float64{.5, .48, .02}, ownTime, 1.2/s.Service, 1500
		o := swapped(t, s, Scheduler)
		checked, overtaken := 0, 0
		for i, wait := range o.Waits {
			if o.Models[i] != 2 {
				continue
			}
			window := (o.Service[i] + 2*s.Load) / residency.Aging
			if o.Arrived[i]+2*window > o.Arrived[len(o.Arrived)-1] {
				break // it may be served because nothing comes any more
			}
			work := 0.0
			for k := range o.Waits {
				if o.Arrived[k]+o.Waits[k] > o.Arrived[i] && o.Arrived[k] <= o.Arrived[i]+window {
					work += o.Service[k]
				}
				if k > i && o.Arrived[k]+o.Waits[k] < o.Arrived[i]+wait {
					overtaken++
				}
			}
			if most := work + 10*s.Load; wait > most { // and a few loads
				t.Errorf("own time %v: a request at %.1f waits %.1f s, at most %.1f are right", ownTime, o.Arrived[i], wait, most)
			}
			checked++
		}
		if checked < 5 || overtaken == 0 {
			t.Errorf("own time %v: %d requests, overtaken %d times, show nothing", ownTime, checked, overtaken)
		}
	}
}

// TestAllAreAnswered: in every order every request is, in no less time than it takes.
func TestAllAreAnswered(t *testing.T) {
	s := threeModels(1)
	s.Requests = 500
	outcomes := map[string]*SwapsOutcome{}
	for _, name := range append(Servers(), Scheduler) {
		outcomes[name] = swapped(t, s, name)
	}
	for name, o := range outcomes {
		for i, wait := range o.Waits {
			if wait < o.Service[i]-1e-6 || math.IsNaN(wait) {
				t.Errorf("%s: request %d of %.3f s is answered after %.3f s", name, i, o.Service[i], wait)
			}
		}
		if o.Loads < len(s.Shares) {
			t.Errorf("%s: %d loads of %d models", name, o.Loads, len(s.Shares))
		}
	}
	if again := swapped(t, s, Scheduler); !reflect.DeepEqual(outcomes[Scheduler], again) {
		t.Error("the same seed gives another outcome")
	}
}

// TestFirstComeFirstServed holds the plainest order to arithmetic by hand.
func TestFirstComeFirstServed(t *testing.T) {
	w := []float64{}
	s := Swaps{Shares: []float64{.5, .5}, Room: 1, Load: 1, Service: .3, Rate: 1e6, Requests: 50, Seed: 1}
	o := swapped(t, s, "fcfs+lru")
	at, last, loads := 0.0, -1, 0
	for i := range o.Waits {
		if o.Models[i] != last {
			at, last = at+s.Load, o.Models[i]
			loads++
		}
		at += o.Service[i]
		w = append(w, at)
		if math.Abs(o.Arrived[i]+o.Waits[i]-at) > 1e-3 {
			t.Fatalf("request %d is answered at %.3f, want %.3f", i, o.Arrived[i]+o.Waits[i], at)
		}
	}
	if o.Loads != loads {
		t.Error(fmt.Sprint(o.Loads, " loads, want ", loads, " ", w))
	}
}
