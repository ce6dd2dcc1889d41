package profile

import (
	"errors"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Fit is a fitted cost model with what it explains of the samples.
type Fit struct {
	Base    time.Duration `json:"base_ns"`
	Token   time.Duration `json:"token_ns"`       // per cache-miss token
	Pair    float64       `json:"pair_seconds"`   // per pair of (n^2 - c^2)/2
	Pearson float64       `json:"pearson_miss"`   // of cache-miss tokens with time: the paper's proxy
	Linear  float64       `json:"r2_linear"`      // R^2 of base + token*(n - c)
	R2      float64       `json:"r2"`             // R^2 with the quadratic term
	Worst   float64       `json:"worst_relative"` // largest relative error of a sample
	Step    time.Duration `json:"step_ns"`        // longest step of a sample; 0 in profiles from before it was measured
}

// features are the columns of the regression.
func features(s Sample) [3]float64 {
	n, c := float64(s.Input), float64(s.Cached)
	return [3]float64{1, n - c, (n*n - c*c) / 2}
}

// FitSamples fits by least squares of the relative error, with no coefficient below zero.
func FitSamples(samples []Sample) (Fit, error) {
	if len(samples) < 3 {
		return Fit{}, fmt.Errorf("%d samples are too few for a fit of three coefficients", len(samples))
	}
	linear, err := solve(samples, []int{0, 1})
	if err != nil {
		return Fit{}, err
	}
	full, err := solve(samples, []int{0, 1, 2})
	if err != nil {
		return Fit{}, err
	}
	miss, took := make([]float64, len(samples)), make([]float64, len(samples))
	for i, s := range samples {
		miss[i], took[i] = features(s)[1], s.Took.Seconds()
	}
	f := Fit{
		Base: seconds(full[0]), Token: seconds(full[1]), Pair: full[2],
		Pearson: stat.Correlation(miss, took, nil),
		Linear:  rSquared(samples, linear), R2: rSquared(samples, full),
	}
	for i, s := range samples {
		f.Worst = max(f.Worst, math.Abs(predict(s, full)-took[i])/took[i])
		f.Step = max(f.Step, s.Step)
	}
	return f, nil
}

func seconds(v float64) time.Duration { return time.Duration(math.Round(v * float64(time.Second))) }

// solve fits the columns, and drops those whose coefficient comes out negative, one at a time.
func solve(samples []Sample, columns []int) ([3]float64, error) {
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
				a.Set(i, k, features(s)[column]*weight)
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

func predict(s Sample, c [3]float64) float64 {
	f := features(s)
	return c[0]*f[0] + c[1]*f[1] + c[2]*f[2]
}

func rSquared(samples []Sample, c [3]float64) float64 {
	var estimates, values []float64
	for _, s := range samples {
		estimates = append(estimates, predict(s, c))
		values = append(values, s.Took.Seconds())
	}
	return stat.RSquaredFrom(estimates, values, nil)
}

// Apply puts the coefficients where the scheduler reads them.
func (f Fit) Apply(m *wire.ModelInfo) {
	m.Cost.Base, m.Cost.Unit, m.Cost.Pair, m.Step = f.Base, f.Token, f.Pair, f.Step
}
