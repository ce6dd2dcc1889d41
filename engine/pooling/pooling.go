// Package pooling makes one vector out of the final hidden states of a prompt's tokens, and computes what a
// classification head says of it. It works on the host: this is hardly any of a pass's arithmetic.
package pooling

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
)

// Pool takes in the hidden states of a prompt's tokens one by one, in order. Sums are in float64, so that the vector
// depends on the states alone.
type Pool struct {
	kind engine.Pool
	rows int
	sum  []float64
	out  []float32
}

// New is a pool of that kind of vectors of so many numbers.
func New(kind engine.Pool, width int) *Pool {
	p := &Pool{kind: kind}
	switch kind {
	case engine.PoolMean, engine.PoolRoot, engine.PoolWeighted:
		p.sum = make([]float64, width)
	}
	return p
}

// Add takes in the next token's state, which stays the caller's.
func (p *Pool) Add(state []float32) {
	p.rows++
	switch {
	case p.kind == engine.PoolAll:
		p.out = append(p.out, state...)
	case p.rows == 1 && p.sum == nil, p.kind == engine.PoolLast:
		p.out = append(p.out[:0], state...)
	case p.kind == engine.PoolMax:
		for i, v := range state {
			p.out[i] = max(p.out[i], v)
		}
	case p.kind == engine.PoolWeighted:
		for i, v := range state {
			p.sum[i] += float64(p.rows) * float64(v)
		}
	case p.sum != nil:
		for i, v := range state {
			p.sum[i] += float64(v)
		}
	}
}

// Vector is what the states taken in so far, at least one, have become. It is the caller's.
func (p *Pool) Vector() []float32 {
	n := float64(p.rows)
	switch p.kind {
	case engine.PoolMean:
		return p.divideSum(n)
	case engine.PoolRoot:
		return p.divideSum(math.Sqrt(n))
	case engine.PoolWeighted:
		return p.divideSum(n * (n + 1) / 2)
	}
	return p.out
}

func (p *Pool) divideSum(n float64) []float32 {
	v := make([]float32, len(p.sum))
	for i, s := range p.sum {
		v[i] = float32(s / n)
	}
	return v
}

// RMSNorm normalises x in place, as the norm before an LM head does.
func RMSNorm(x, weight []float32, eps float32) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	for i, v := range x {
		x[i] = weight[i] * (v * scale)
	}
}

// LayerNorm normalises x in place, centred, as RMSNorm does; bias may be nil.
func LayerNorm(x, weight, bias []float32, eps float32) {
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	scale := 1 / math.Sqrt(squares/float64(len(x))+float64(eps))
	for i, v := range x {
		x[i] = weight[i] * float32((float64(v)-mean)*scale)
		if bias != nil {
			x[i] += bias[i]
		}
	}
}
