package profile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Fit is a fitted cost model with what it explains of the samples.
type Fit struct {
	Base    time.Duration `json:"base_ns"`
	Unit    time.Duration `json:"token_ns"`       // per cache-miss token, or frame
	Pair    float64       `json:"pair_seconds"`   // per pair of (n^2 - c^2)/2
	Pearson float64       `json:"pearson_miss"`   // of cache-miss tokens with time: the paper's proxy
	Linear  float64       `json:"r2_linear"`      // R^2 of base + token*(n - c)
	R2      float64       `json:"r2"`             // R^2 with the quadratic term
	Worst   float64       `json:"worst_relative"` // largest relative error of a sample
	Step    time.Duration `json:"step_ns"`        // longest step of a sample; 0 in profiles from before it was measured

	Growth   float64 `json:"growth,omitempty"`   // of a frame's cost with its elements; 0: not measured
	Backward float64 `json:"backward,omitempty"` // frames that a frame's gradient costs beside it; 0: not measured
}

// regressionColumns are the columns of the regression.
func regressionColumns(s Sample) [3]float64 {
	n, c := float64(s.Input), float64(s.Cached)
	return [3]float64{1, n - c, (n*n - c*c) / 2}
}

// FitSamples fits by least squares of the relative error, with no coefficient below zero.
func FitSamples(samples []Sample) (Fit, error) {
	if len(samples) < 3 {
		return Fit{}, fmt.Errorf("%d samples are too few for a fit of three coefficients", len(samples))
	}
	linear, err := fitColumns(samples, []int{0, 1})
	if err != nil {
		return Fit{}, err
	}
	full, err := fitColumns(samples, []int{0, 1, 2})
	if err != nil {
		return Fit{}, err
	}
	miss, took := make([]float64, len(samples)), make([]float64, len(samples))
	for i, s := range samples {
		miss[i], took[i] = regressionColumns(s)[1], s.Took.Seconds()
	}
	f := Fit{
		Base: secondsDuration(full[0]), Unit: secondsDuration(full[1]), Pair: full[2],
		Pearson: stat.Correlation(miss, took, nil),
		Linear:  rSquared(samples, linear), R2: rSquared(samples, full),
	}
	for i, s := range samples {
		f.Worst = max(f.Worst, math.Abs(predictSeconds(s, full)-took[i])/took[i])
		f.Step = max(f.Step, s.Step)
	}
	return f, nil
}

func secondsDuration(v float64) time.Duration {
	return time.Duration(math.Round(v * float64(time.Second)))
}

// fitColumns fits the columns, and drops those whose coefficient comes out negative, one at a time.
func fitColumns(samples []Sample, columns []int) ([3]float64, error) {
	var out [3]float64
	for len(columns) > 0 {
		a := mat.NewDense(len(samples), len(columns), nil)
		b := mat.NewVecDense(len(samples), nil)
		for i, s := range samples {
			if s.Took <= 0 {
				return out, fmt.Errorf("the sample of %d tokens took no time", s.Input)
			}
			weight := 1 / s.Took.Seconds()
			for k, column := range columns {
				a.Set(i, k, regressionColumns(s)[column]*weight)
			}
			b.SetVec(i, 1)
		}
		var x mat.VecDense
		var ill mat.Condition
		if err := x.SolveVec(a, b); err != nil && !errors.As(err, &ill) {
			return out, fmt.Errorf("the samples do not determine a fit: %w", err)
		}
		negative := -1
		for k := range columns {
			if v := x.AtVec(k); v < 0 && (negative < 0 || v < x.AtVec(negative)) {
				negative = k
			}
		}
		if negative < 0 {
			for k, column := range columns {
				out[column] = x.AtVec(k)
			}
			return out, nil
		}
		columns = append(columns[:negative:negative], columns[negative+1:]...)
	}
	return out, errors.New("no coefficient of the fit is positive")
}

func predictSeconds(s Sample, c [3]float64) float64 {
	f := regressionColumns(s)
	return c[0]*f[0] + c[1]*f[1] + c[2]*f[2]
}

func rSquared(samples []Sample, c [3]float64) float64 {
	var estimates, values []float64
	for _, s := range samples {
		estimates = append(estimates, predictSeconds(s, c))
		values = append(values, s.Took.Seconds())
	}
	return stat.RSquaredFrom(estimates, values, nil)
}

// FitFrames fits base + unit*frames to passes of frames of one size, with no coefficient below zero: all is the unit's
// where they are of one batch. Of frames of other sizes and of gradients, which may be none, the first one tells what
// these cost beside.
func FitFrames(frames, others, gradients []Sample) (Fit, error) {
	if len(frames) == 0 {
		return Fit{}, errors.New("there are no samples of frames to fit")
	}
	columns := []int{0, 1}
	if len(frames) == 1 {
		columns = columns[1:]
	}
	c, err := fitColumns(frames, columns)
	if err != nil {
		return Fit{}, err
	}
	c[1] = max(c[1], frames[0].Took.Seconds()/1000) // a cost of none is that of what was not measured
	f := Fit{Base: secondsDuration(c[0]), Unit: secondsDuration(c[1])}
	for _, s := range slices.Concat(frames, others, gradients) {
		f.Step = max(f.Step, s.Step)
	}
	for _, s := range frames {
		f.Worst = max(f.Worst, math.Abs(predictSeconds(s, c)/s.Took.Seconds()-1))
	}
	if len(others) > 0 {
		o := others[0]
		each := (o.Took.Seconds() - c[0]) / (c[1] * float64(o.Input))
		f.Growth = max(0.01, (each-1)/(o.Size-1))
	}
	if len(gradients) > 0 {
		g := gradients[0]
		f.Backward = max(0.01, (g.Took.Seconds()-predictSeconds(g, c))/(c[1]*float64(g.Input)))
	}
	return f, nil
}

// Apply puts the coefficients where the scheduler reads them.
func (f Fit) Apply(m *wire.ModelInfo) {
	m.Cost.Base, m.Cost.Unit, m.Cost.Pair, m.Step = f.Base, f.Unit, f.Pair, f.Step
	if m.Tensors == nil {
		return
	}
	limits := *m.Tensors
	if limits.Backward > 0 && f.Backward > 0 {
		limits.Backward = f.Backward
	}
	if limits.Growth > 0 && f.Growth > 0 {
		limits.Growth = f.Growth
	}
	m.Tensors = &limits
}
