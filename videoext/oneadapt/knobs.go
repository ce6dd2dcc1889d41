// Package oneadapt sets the knobs of a streaming pipeline by gradient ascent on accuracy less resource (Du and others, "OneAdapt:
// Fast Adaptation for Deep Learning Applications via Backpropagation", SoCC 2023), as a pure core.
//
// A sensor prepares an interval of data by a configuration, and a network on a server looks at it. How accuracy changes with each knob,
// OutputGrad, is the product of two things: how the network's output changes with its input (DNNGrad, one backward pass on the server, which
// a Map carries) and how that input changes with the knob (InputGrad, which the sensor measures by preparing the interval in other ways).
// An Adapter asks for both, and a Rule turns them into the next configuration.
package oneadapt

import (
	"fmt"
	"slices"
)

// Knob is a ladder of settings, each of which costs more than the one before.
type Knob struct {
	Name   string
	Places []float64 // of the settings, from 0, the cheapest, to 1, the dearest; increasing, at least two
}

// Even is a knob of n settings, at least two, at equal distances.
func Even(name string, n int) Knob {
	k := Knob{Name: name, Places: make([]float64, n)}
	for i := range k.Places {
		k.Places[i] = float64(i) / float64(n-1)
	}
	return k
}

// check says what is wrong with a knob.
func (k *Knob) check() error {
	n := len(k.Places)
	if n < 2 || k.Places[0] != 0 || k.Places[n-1] != 1 {
		return fmt.Errorf("knob %s has the places %v; they go from 0 to 1", k.Name, k.Places)
	}
	for i := range n - 1 {
		if !(k.Places[i] < k.Places[i+1]) {
			return fmt.Errorf("knob %s: place %v is not below %v", k.Name, k.Places[i], k.Places[i+1])
		}
	}
	return nil
}

// nearestSetting is the setting whose place is nearest to x; of two, the dearer.
func (k *Knob) nearestSetting(x float64) int {
	i, _ := slices.BinarySearch(k.Places, x)
	if i == len(k.Places) || i > 0 && x-k.Places[i-1] < k.Places[i]-x {
		return i - 1
	}
	return i
}

// atLeast is the cheapest setting whose place is not below x.
func (k *Knob) atLeast(x float64) int {
	i, _ := slices.BinarySearch(k.Places, x)
	return min(i, len(k.Places)-1)
}

// neighbourSetting is the setting next to one: the dearer, and of the dearest the cheaper.
func (k *Knob) neighbourSetting(setting int) int {
	if setting == len(k.Places)-1 {
		return setting - 1
	}
	return setting + 1
}

// Config is a setting of each knob, by its number on the knob's ladder.
type Config []int

// Cheapest and Dearest are the ends of all knobs.
func Cheapest(knobs []Knob) Config { return make(Config, len(knobs)) }

// Dearest is the configuration whose results are taken for the truth.
func Dearest(knobs []Knob) Config {
	c := make(Config, len(knobs))
	for i := range knobs {
		c[i] = len(knobs[i].Places) - 1
	}
	return c
}

// withSetting is the configuration with another setting of one knob.
func (c Config) withSetting(knob, setting int) Config {
	c = slices.Clone(c)
	c[knob] = setting
	return c
}
