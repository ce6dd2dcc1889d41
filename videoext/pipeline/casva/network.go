package casva

import (
	"math"
	"math/rand/v2"
)

// Network has one hidden layer, of tanh. Params are, one after the other: hidden weights [Hidden, In], hidden biases, weights [Out, Hidden], biases.
type Network struct {
	In, Hidden, Out int
	Params          []float64
}

// NewNetwork draws weights whose variance is that of 1/inputs; those of the outputs are a hundredth of that, so that an untrained policy leans to nothing.
func NewNetwork(in, hidden, out int, r *rand.Rand) *Network {
	n := &Network{In: in, Hidden: hidden, Out: out}
	n.Params = make([]float64, n.paramCount())
	w, _, u, _ := n.splitParams(n.Params)
	for i := range w {
		w[i] = r.NormFloat64() / math.Sqrt(float64(in))
	}
	for i := range u {
		u[i] = 0.01 * r.NormFloat64() / math.Sqrt(float64(hidden))
	}
	return n
}

func (n *Network) paramCount() int { return n.Hidden*(n.In+1) + n.Out*(n.Hidden+1) }

// splitParams are the weights and biases of both layers in a vector such as Params.
func (n *Network) splitParams(params []float64) (w, b, u, c []float64) {
	i := n.Hidden * n.In
	j := i + n.Hidden
	k := j + n.Out*n.Hidden
	return params[:i], params[i:j], params[j:k], params[k:]
}

// Forward is what the network makes of x, and its hidden layer, which Backward needs.
func (n *Network) Forward(x []float64) (out, hidden []float64) {
	w, b, u, c := n.splitParams(n.Params)
	hidden, out = make([]float64, n.Hidden), make([]float64, n.Out)
	for i := range hidden {
		hidden[i] = math.Tanh(b[i] + dot(w[i*n.In:][:n.In], x))
	}
	for i := range out {
		out[i] = c[i] + dot(u[i*n.Hidden:][:n.Hidden], hidden)
	}
	return out, hidden
}

func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// Backward adds to gradient what slopes, those of a loss with the outputs, say of each of Params.
func (n *Network) Backward(x, hidden, slopes, gradient []float64) {
	dw, db, du, dc := n.splitParams(gradient)
	_, _, u, _ := n.splitParams(n.Params)
	back := make([]float64, n.Hidden)
	for i, s := range slopes {
		dc[i] += s
		for j, h := range hidden {
			du[i*n.Hidden+j] += s * h
			back[j] += s * u[i*n.Hidden+j]
		}
	}
	for j, h := range hidden {
		s := back[j] * (1 - h*h)
		db[j] += s
		for k, v := range x {
			dw[j*n.In+k] += s * v
		}
	}
}
