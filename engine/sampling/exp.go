package sampling

import "math"

const (
	negligible = -80     // exp of less is 0 here: a vocabulary of such terms is lost beside a term of 1
	steps      = 64      // of a factor of 2
	toInteger  = 3 << 51 // adding it to a float64 of less than 2^51 leaves the nearest integer in the lower bits
)

// powers are the bits of 2^(i/steps).
var powers = func() (bits [steps]uint64) {
	for i := range bits {
		bits[i] = math.Float64bits(math.Exp2(float64(i) / steps))
	}
	return bits
}()

// exp is e^x for x <= 0 within 3e-8 of the value, about three times as fast as math.Exp, and NaN for NaN: reduction to
// |r| <= ln(2)/128 with a table, and Taylor's polynomial (Tang, Table-driven implementation of the exponential function, 1989).
func exp(x float64) float64 {
	if x < negligible {
		return 0
	}
	shifted := float64(x*(steps/math.Ln2)) + toInteger
	r := x - float64((shifted-toInteger)*(math.Ln2/steps))
	n := math.Float64bits(shifted)
	return math.Float64frombits(powers[n%steps]+n/steps<<52) * (1 + float64(r*(1+float64(r*0.5))))
}
