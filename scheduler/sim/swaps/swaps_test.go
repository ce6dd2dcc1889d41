package swaps

import (
	"fmt"
	"math"
	"reflect"
	"testing"
)

// setting is three models of which two fit, on a CPU, at a load that leaves a third of its time.
func setting(seed uint64) Setting {
	return Setting{Shares: []float64{.6, .3, .1}, Room: 2, Load: .5, Service: .15, Rate: .65 / .15, OwnTime: true, Requests: 2000, Seed: seed}
}

// TestAgainstOthers holds the order to its margins over other servers'.
func TestAgainstOthers(t *testing.T) {
	var ours Outcome
	others := map[string]*Outcome{}
	for seed := range uint64(3) {
		o, err := Residency(setting(seed))
		if err != nil {
			t.Fatal(err)
		}
		ours.Loads += o.Loads
		ours.Waits = append(ours.Waits, o.Waits...)
		for _, name := range Others() {
			if others[name] == nil {
				others[name] = &Outcome{}
			}
			o := Other(setting(seed), name)
			others[name].Loads += o.Loads
			others[name].Waits = append(others[name].Waits, o.Waits...)
		}
	}
	for name, o := range others {
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
// is hardly asked for: a job of that one is overtaken by what comes within c/aging after it and by nothing later, c being
// its seconds, its model's load and as much again. So it waits for the work of that time, and of what was there.
func TestNobodyStarves(t *testing.T) {
	for _, ownTime := range []bool{false, true} {
		s := setting(5)
		s.Shares, s.OwnTime, s.Rate, s.Requests = []float64{.5, .48, .02}, ownTime, 1.2/s.Service, 1500
		o, err := Residency(s)
		if err != nil {
			t.Fatal(err)
		}
		checked, overtaken := 0, 0
		for i, wait := range o.Waits {
			if o.Models[i] != 2 {
				continue
			}
			window := (o.Service[i] + 2*s.Load) / aging
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
	s := setting(1)
	s.Requests = 500
	outcomes := map[string]*Outcome{}
	var err error
	if outcomes["residency"], err = Residency(s); err != nil {
		t.Fatal(err)
	}
	for _, name := range Others() {
		outcomes[name] = Other(s, name)
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
	again, _ := Residency(s)
	if !reflect.DeepEqual(outcomes["residency"], again) {
		t.Error("the same seed gives another outcome")
	}
}

// TestFirstComeFirstServed holds the plainest order to arithmetic by hand.
func TestFirstComeFirstServed(t *testing.T) {
	w := []float64{}
	s := Setting{Shares: []float64{.5, .5}, Room: 1, Load: 1, Service: .3, Rate: 1e6, Requests: 50, Seed: 1}
	o := Other(s, "fcfs+lru")
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
