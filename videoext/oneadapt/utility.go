package oneadapt

import "math"

// Utility counts the elements of an output softly: those whose score is above a threshold (OneAdapt, 4.1.3; the sigmoid is the published code's).
type Utility struct {
	Threshold float64 // theta
	Slope     float64 // of the score from the threshold on, in the sigmoid
}

// UsualUtility is that of the paper and its code.
func UsualUtility() Utility { return Utility{Threshold: 0.5, Slope: 20} }

// Of is what an element of a score counts, from 0 to 1, and how that changes with the score.
func (u Utility) Evaluate(score float64) (value, slope float64) {
	value = 1 / (1 + math.Exp(-u.Slope*(score-u.Threshold)))
	return value, u.Slope * value * (1 - value)
}
