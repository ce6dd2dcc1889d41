package cost

import (
	"math"
	"math/bits"
)

const (
	// fitStep is the weight of the newest pass in the mean of its stratum.
	fitStep = 0.1
	// numStrata covers passes of up to 2^47 Pairs or Units: more than a prompt of ten million tokens.
	numStrata = 48
	// fitPrior is the weight of the prior: a pass that takes 1 % longer than the fit says weighs as
	// much as a rate that is off the prior by as much as is plausible.
	fitPrior = 1e-4
	// plainTokens is the number of tokens of a prompt above which attention may plausibly take longer
	// than all else, by the prior.
	plainTokens = 20_000
)

// fit finds the rates of an executor without a profile from the passes it has run: least squares of
// the relative errors, with older passes forgotten exponentially.
//
// Recursive least squares that forgets forgets all directions alike: after a thousand short passes
// nothing is left of the one long pass that told what attention costs (estimator wind-up; Kulhavy,
// Restricted exponential forgetting in real-time identification, Automatica 23, 1987). So passes are
// kept apart by size: a stratum for each power of two of their pairs, or units if they are more, holds the running means of its
// own passes, in which older ones fade only as new ones come, and each weighs the same in the fit. As time
// is linear in the terms of work, so are the means.
//
// Terms that the passes do not tell apart are left to a weak prior (ridge regression; Hoerl and
// Kennard, Technometrics 12, 1970): a pass costs defaultBase, and attention nothing.
type fit struct{ strata [numStrata]stratum }

// stratum is the mean of passes of about one size; work.passes is 0 before the first.
type stratum struct {
	work    Work
	seconds float64
}

// addPass takes in a pass that was predicted to take so long. One that is far off what its stratum has
// led to expect counts as less far off.
func (f *fit) addPass(w Work, took, predicted float64) {
	s := &f.strata[min(bits.Len64(uint64(max(w.Pairs, w.Units))), numStrata-1)]
	if s.work.Passes == 0 {
		s.work, s.seconds = w, took
		return
	}
	if predicted > 0 {
		took = min(max(took, predicted/surprise), predicted*surprise)
	}
	s.work.Passes += fitStep * (w.Passes - s.work.Passes)
	s.work.Units += fitStep * (w.Units - s.work.Units)
	s.work.Pairs += fitStep * (w.Pairs - s.work.Pairs)
	s.seconds += fitStep * (took - s.seconds)
}

// solveRates solves for the rates, none of which is negative. There must have been a pass.
func (f *fit) solveRates() rates {
	prior := f.priorRates()
	plausible := [3]float64{prior.pass, prior.unit, prior.unit / plainTokens}
	// With each rate in units of what is plausible: the normal equations.
	var a [3][3]float64
	var b [3]float64
	for k, p := range [3]float64{1, 1, 0} {
		a[k][k] = fitPrior
		b[k] = fitPrior * p
	}
	for i := range f.strata {
		s := &f.strata[i]
		if s.work.Passes == 0 {
			continue
		}
		x := [3]float64{s.work.Passes, s.work.Units, s.work.Pairs}
		for k := range x {
			x[k] *= plausible[k] / s.seconds
		}
		for k := range x {
			b[k] += x[k]
			for l := range x {
				a[k][l] += x[k] * x[l]
			}
		}
	}
	r := solveNonNegative(a, b)
	return rates{r[0] * plausible[0], r[1] * plausible[1], r[2] * plausible[2]}
}

// priorRates fits the one rate of a unit with which passes cost defaultBase and pairs nothing.
func (f *fit) priorRates() rates {
	var sum, squares float64
	for i := range f.strata {
		if s := &f.strata[i]; s.work.Passes > 0 {
			x := (defaultBase*s.work.Passes + s.work.Units) / s.seconds
			sum += x
			squares += x * x
		}
	}
	unit := sum / squares
	return rates{pass: defaultBase * unit, unit: unit}
}

// solveNonNegative minimises x'ax/2 - b'x over x >= 0 for a positive definite a: of the solutions in
// which some unknowns are 0 and the others free, it takes the best one that has no negative.
func solveNonNegative(a [3][3]float64, b [3]float64) (best [3]float64) {
	least := math.Inf(1)
	for free := 1; free < 1<<3; free++ {
		x := solveFree(a, b, free)
		value := 0.0
		for k := range x {
			if x[k] < 0 {
				value = math.Inf(1)
			}
			value -= b[k] * x[k] / 2 // x'ax = b'x at a solution
		}
		if value < least {
			best, least = x, value
		}
	}
	return best
}

// solveFree solves ax = b for the unknowns in the bit set free, with the others 0, by Gaussian
// elimination, which needs no pivoting where a is positive definite.
func solveFree(a [3][3]float64, b [3]float64, free int) (x [3]float64) {
	for k := range x {
		if free>>k&1 == 0 {
			a[k], b[k] = [3]float64{}, 0
			for l := range x {
				a[l][k] = 0
			}
			a[k][k] = 1
		}
	}
	for k := range x {
		for l := k + 1; l < len(x); l++ {
			factor := a[l][k] / a[k][k]
			for m := k; m < len(x); m++ {
				a[l][m] -= factor * a[k][m]
			}
			b[l] -= factor * b[k]
		}
	}
	for k := len(x) - 1; k >= 0; k-- {
		x[k] = b[k]
		for m := k + 1; m < len(x); m++ {
			x[k] -= a[k][m] * x[m]
		}
		x[k] /= a[k][k]
	}
	return x
}
