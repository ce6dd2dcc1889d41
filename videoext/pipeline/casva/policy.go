// Package casva sets the knobs of each interval by a small policy on the sensor, which reinforcement learning has trained on other recordings (Zhang and others, "CASVA:
// Configuration-Adaptive Streaming for Live Video Analytics", INFOCOM 2022). It trains that policy, too: by proximal policy optimisation with two clips, on a table of what each
// configuration of each interval of some recordings takes and gives.
package casva

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// streets is what tools/train casva has trained on drawn streets, for the knobs of an encoder.
//
//go:embed streets.policy
var streets []byte

// Streets is the policy for the knobs of an encoder that was trained on drawn streets (tools/train casva).
func StreetPolicy() (*Policy, error) { return ReadPolicy(streets) }

// Policy says of a state how likely each setting of each knob is to be right.
type Policy struct {
	Ladders [][]int // the settings of each knob among which it chooses
	*Network
}

// Content is how many numbers a sensor tells of an interval's content.
const Content = 3

const hidden = 32

// NewPolicy draws one that is not trained.
func NewPolicy(ladders [][]int, r *rand.Rand) *Policy {
	return &Policy{ladders, NewNetwork(stateSize(len(ladders)), hidden, outputCount(ladders), r)}
}

func outputCount(ladders [][]int) (n int) {
	for _, l := range ladders {
		n += len(l)
	}
	return n
}

// Chances are the probabilities of each knob's settings, by the network's outputs.
func (p *Policy) Chances(out []float64) [][]float64 {
	all := make([][]float64, len(p.Ladders))
	for i, l := range p.Ladders {
		all[i], out = softmax(out[:len(l)]), out[len(l):]
	}
	return all
}

func softmax(logits []float64) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range logits {
		top = max(top, v)
	}
	all := make([]float64, len(logits))
	for i, v := range logits {
		all[i] = math.Exp(v - top)
		sum += all[i]
	}
	for i := range all {
		all[i] /= sum
	}
	return all
}

// Choose is the likeliest setting of each knob, by its place in Ladders.
func (p *Policy) Choose(state []float64) (choice []int) {
	out, _ := p.Forward(state)
	for _, chances := range p.Chances(out) {
		best := 0
		for i, c := range chances {
			if c > chances[best] {
				best = i
			}
		}
		choice = append(choice, best)
	}
	return choice
}

// Config is the configuration of a choice.
func (p *Policy) Config(choice []int) oneadapt.Config {
	c := make(oneadapt.Config, len(choice))
	for i, place := range choice {
		c[i] = p.Ladders[i][place]
	}
	return c
}

// magic begins a policy's file: knobs, hidden units, each knob's settings with their number before them, all in a byte each, and Params as little-endian float32.
const magic = "CASVA1"

// AppendBinary implements encoding.BinaryAppender.
func (p *Policy) AppendBinary(data []byte) ([]byte, error) {
	data = append(data, magic...)
	data = append(data, byte(len(p.Ladders)), byte(p.Hidden))
	for _, l := range p.Ladders {
		data = append(data, byte(len(l)))
		for _, setting := range l {
			data = append(data, byte(setting))
		}
	}
	for _, v := range p.Params {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	}
	return data, nil
}

var errShort = errors.New("a policy's file has ended early; train it again by tools/train casva")

// Read reads what AppendBinary wrote.
func ReadPolicy(data []byte) (*Policy, error) {
	if len(data) < len(magic)+2 || string(data[:len(magic)]) != magic {
		return nil, fmt.Errorf("a policy's file begins with %q and two numbers", magic)
	}
	knobs, units := int(data[len(magic)]), int(data[len(magic)+1])
	data = data[len(magic)+2:]
	p := &Policy{Ladders: make([][]int, knobs)}
	for i := range p.Ladders {
		if len(data) == 0 || len(data) <= int(data[0]) {
			return nil, errShort
		}
		if data[0] == 0 {
			return nil, fmt.Errorf("knob %d of a policy has no settings", i)
		}
		for _, setting := range data[1:][:data[0]] {
			p.Ladders[i] = append(p.Ladders[i], int(setting))
		}
		data = data[1+data[0]:]
	}
	p.Network = &Network{In: stateSize(knobs), Hidden: units, Out: outputCount(p.Ladders)}
	if knobs == 0 || units == 0 || len(data) != 4*p.paramCount() {
		return nil, fmt.Errorf("a policy of %d knobs and %d hidden units has %d bytes of weights, want %d; train it again by tools/train casva", knobs, units, len(data), 4*p.paramCount())
	}
	for ; len(data) > 0; data = data[4:] {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("weight %d of a policy is %v", len(p.Params), v)
		}
		p.Params = append(p.Params, v)
	}
	return p, nil
}
