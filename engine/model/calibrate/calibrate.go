// Package calibrate runs a decoder over prompts to see how large its activations get: what the norms before linear layers give,
// channel by channel.
package calibrate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// MaxTokens is the most tokens of a prompt that are computed, as memory is taken for.
const MaxTokens = 2048

// maxItems is the most prompts of a pass.
const maxItems = 64

// Calibration is a model in memory, and what was seen of it.
type Calibration struct {
	model   *model.Model
	seen    *observer
	source  *weights.Checkpoint
	limit   int
	vocab   int
	pending []prompt
	rows    int // tokens of pending
	Counts
}

// Counts are of what was computed.
type Counts struct{ Prompts, Tokens, Cut int }

// prompt is one that is to be computed.
type prompt struct {
	tokens []engine.TokenID
	place  string // that it came from, for errors
}

// Open loads the checkpoint in dir onto b, which the caller closes after the calibration.
func Open(dir string, b kernels.Backend) (*Calibration, error) {
	config, err := weights.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	if spec, err := architecture.New(&config); err == nil {
		if err := spec.CheckSmoothing(); err != nil {
			return nil, fmt.Errorf("%s: %w", config.Architectures[0], err)
		}
	}
	source, err := weights.Open(dir)
	if err != nil {
		return nil, err
	}
	c := &Calibration{seen: &observer{Backend: b, norms: map[kernels.Vector]*norm{}}, source: source, limit: min(MaxTokens, config.MaxPositionEmbeddings)}
	if c.model, err = model.New(config, apart{source}, c.seen, model.Options{MaxLen: c.limit, MaxItems: maxItems}); err != nil {
		_ = source.Close()
		return nil, err
	}
	c.vocab = c.model.Info().Tokens.VocabSize
	return c, nil
}

// apart is a checkpoint whose tensors all have a content of their own, so that of norms with equal weights each is one by itself.
type apart struct{ *weights.Checkpoint }

// ID implements the model's source.
func (apart) ID(name string) weights.ID { return sha256.Sum256([]byte(name)) }

// Add computes a prompt, of which it takes as many tokens as there is room for, now or beside others later. The place it came
// from is what errors begin with.
func (c *Calibration) Add(ctx context.Context, place string, tokens []engine.TokenID) error {
	for i, id := range tokens {
		if int64(id) >= int64(c.vocab) {
			return fmt.Errorf("%s: token %d at position %d is outside the vocabulary of %d", place, id, i, c.vocab)
		}
	}
	if len(tokens) > c.limit {
		tokens = tokens[:c.limit]
		c.Cut++
	}
	if c.rows+len(tokens) > c.limit || len(c.pending) == maxItems {
		if err := c.computePrompts(ctx); err != nil {
			return err
		}
	}
	c.pending, c.rows = append(c.pending, prompt{tokens, place}), c.rows+len(tokens)
	return nil
}

// computePrompts takes the pending prompts through the model. A vector of all their states takes every row through the last layer, too,
// and none through the LM head.
func (c *Calibration) computePrompts(ctx context.Context) error {
	if len(c.pending) == 0 {
		return nil
	}
	run := &wire.Run{}
	for i, p := range c.pending {
		run.Items = append(run.Items, wire.RunItem{Job: engine.JobID(i), Work: &wire.TokenItem{Tokens: p.tokens, Ask: engine.Ask{Pool: engine.PoolMean}}})
	}
	pass, err := c.model.Begin(run)
	if err != nil {
		return err
	}
	defer pass.Close()
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done, err = pass.Step(); err != nil {
			return err
		}
	}
	if err := c.seen.checkFinite(); err != nil {
		first, last := c.pending[0].place, c.pending[len(c.pending)-1].place
		if first != last {
			first += " to " + last
		}
		return fmt.Errorf("%s: %w", first, err)
	}
	for i, r := range pass.Results() {
		if r.Err != nil {
			return fmt.Errorf("%s: %w", c.pending[i].place, r.Err)
		}
	}
	c.Prompts, c.Tokens = c.Prompts+len(c.pending), c.Tokens+c.rows
	c.pending, c.rows = c.pending[:0], 0
	return nil
}

// Peaks is the largest magnitude of each channel that each norm before a linear layer gave, by the name of its weight.
func (c *Calibration) Peaks(ctx context.Context) (map[string][]float32, error) {
	if err := c.computePrompts(ctx); err != nil {
		return nil, err
	}
	peaks := map[string][]float32{}
	for _, n := range c.seen.used {
		peaks[n.name] = n.peaks
	}
	return peaks, nil
}

// Close gives the model's memory back.
func (c *Calibration) Close() {
	c.model.Close()
	_ = c.source.Close()
}

// observer is a backend that looks at the rows that norms before linear layers are given, and computes what they give.
type observer struct {
	kernels.Backend
	norms map[kernels.Vector]*norm
	used  []*norm   // before linear layers, in the order of the model
	bytes []byte    // of a row
	row   []float32 // the same as numbers
}

// norm is a weight, and what it gave.
type norm struct {
	name   string
	weight []float32
	peaks  []float32 // nil until it was used
}

// NewVector implements kernels.Backend.
func (o *observer) NewVector(t kernels.HostTensor) (kernels.Vector, error) {
	v, err := o.Backend.NewVector(t)
	if err != nil {
		return nil, err
	}
	raw := make([]byte, len(t.Data))
	if err := t.ReadPart(raw, t.Data); err != nil {
		v.Free()
		return nil, err
	}
	n := &norm{name: t.Name, weight: make([]float32, t.Cols)}
	kernels.Expand(n.weight, t.Type, raw)
	o.norms[v] = n
	return v, nil
}

// NormLinear implements kernels.Backend.
func (o *observer) NormLinear(dst, x kernels.Mat, n kernels.Norm, l kernels.Linear) {
	o.observeRows(x, n)
	o.Backend.NormLinear(dst, x, n, l)
}

// MLP implements kernels.Backend.
func (o *observer) MLP(x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	o.observeRows(x, n)
	o.Backend.MLP(x, n, act, up, down)
}

// observeRows takes rows of the residual stream into the peaks of a norm.
func (o *observer) observeRows(x kernels.Mat, of kernels.Norm) {
	n := o.norms[of.Weight]
	if n.peaks == nil {
		n.peaks, o.used = make([]float32, len(n.weight)), append(o.used, n)
	}
	if len(o.row) != x.Cols {
		o.row, o.bytes = make([]float32, x.Cols), make([]byte, 4*x.Cols)
	}
	for i := range x.Rows {
		o.Read(o.bytes, x.Buf, x.Slice(i, i+1).Off)
		kernels.Expand(o.row, kernels.F32, o.bytes)
		sum := 0.0
		for _, v := range o.row {
			sum += float64(v) * float64(v)
		}
		scale := float32(1 / math.Sqrt(sum/float64(x.Cols)+float64(of.Eps)))
		for j, v := range o.row {
			n.peaks[j] = max(n.peaks[j], float32(math.Abs(float64(v*scale*n.weight[j]))))
		}
	}
}

// checkFinite refuses numbers that no scale fits.
func (o *observer) checkFinite() error {
	for _, n := range o.used {
		for i, v := range n.peaks {
			if v != v || math.IsInf(float64(v), 0) {
				return fmt.Errorf("the model gives %v in channel %d behind %q", v, i, n.name)
			}
		}
	}
	return nil
}
