package cudnn

import (
	"bytes"
	"crypto/sha256"
	"fmt"
)

// Attention holds the plans of one shape.
//
// All of them are one kernel: the engine and its knobs (tiles, splits) are chosen once and given to
// every plan, and a plan whose machine code differs from the first one's is refused. That is what
// makes a row's bits independent of the bucket it is computed in. Why they do not depend on the rows
// beside it either: a block of threads owns a tile of queries of one head of one sequence and takes
// all their keys itself, in tiles whose borders are multiples of the tile from the sequence's first
// key on, in one order. No other block adds to its sums (STREAM_K, which would, must be 0), and within
// a tile a query is a row of the matrix products, whose sums run over the columns alone. A tile that
// a query may not see changes neither its maximum nor its sum.
type Attention struct {
	library *Library
	options AttentionOptions
	shape   AttentionShape
	engine  Engine
	code    [sha256.Size]byte // of the first plan
	kernel  string            // its name
	plans   map[AttentionBucket]*AttentionPlan
}

// NewAttention chooses the kernel of a shape, as cuDNN's heuristic does for the bucket, and compiles it for that bucket. The
// error says why cuDNN refuses.
func NewAttention(l *Library, o AttentionOptions, s AttentionShape, b AttentionBucket) (*Attention, error) {
	e, err := chooseAttentionEngine(l, s, b)
	if err != nil {
		return nil, err
	}
	if e.Splits() {
		return nil, fmt.Errorf("cuDNN's %v shares sums among blocks of threads: a row's bits would depend on the rows beside it", e)
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	a := &Attention{library: l, options: o, shape: s, engine: e, plans: map[AttentionBucket]*AttentionPlan{}}
	if _, err := a.Plan(b); err != nil {
		return nil, err
	}
	return a, nil
}

// chooseEngine is the engine that cuDNN's heuristic puts first.
func chooseAttentionEngine(l *Library, s AttentionShape, b AttentionBucket) (Engine, error) {
	g, operations := describeAttention(l, s, b)
	defer g.Free()
	engines, err := g.Engines(operations, HeuristicA, 1)
	if err != nil {
		return Engine{}, err
	}
	return engines[0], nil
}

// Kernel names the kernel, its engine and its knobs.
func (a *Attention) Kernel() string { return fmt.Sprintf("%s (%v)", a.kernel, a.engine) }

// Close frees the plans.
func (a *Attention) Close() {
	for _, p := range a.plans {
		p.Free()
	}
}

// Plan is the plan of a bucket: the one that is held, the one on disk, or one compiled now.
func (a *Attention) Plan(b AttentionBucket) (*AttentionPlan, error) {
	if p, ok := a.plans[b]; ok {
		return p, nil
	}
	p, text, err := a.load(b)
	if err != nil {
		return nil, err
	}
	code := sha256.Sum256(jsonStringField(text, "cubin"))
	if len(a.plans) == 0 {
		a.code, a.kernel = code, string(jsonStringField(text, "kernelName"))
	} else if code != a.code {
		p.Free()
		return nil, fmt.Errorf("cuDNN compiles another kernel for %+v than for other sizes of %+v (%v)", b, a.shape, a.engine)
	}
	a.plans[b] = p
	return p, nil
}

// load takes the plan from disk, or compiles and stores it.
func (a *Attention) load(b AttentionBucket) (*AttentionPlan, []byte, error) {
	key := fmt.Sprintf("cuDNN %s on %s: %+v %+v %v", a.library.Version(), a.options.Device, a.shape, b, a.engine)
	if text, ok := ReadPlan(a.options.Dir, key); ok {
		if p, err := a.library.Restore(text); err == nil {
			return &AttentionPlan{p, a.shape.Window}, text, nil
		}
	}
	g, operations := describeAttention(a.library, a.shape, b)
	p, err := g.Build(operations, a.engine)
	if err != nil {
		return nil, nil, fmt.Errorf("%v for %+v %+v: %w", a.engine, a.shape, b, err)
	}
	text, err := p.Text()
	if err == nil {
		err = WritePlan(a.options.Dir, key, text)
	}
	if err != nil {
		a.options.Note(fmt.Sprintf("a plan of cuDNN is not kept for the next run: %v", err))
	}
	return &AttentionPlan{p, a.shape.Window}, text, nil
}

// jsonStringField is a string of a plan's text, which is JSON: the first of this name, with neither quotes nor
// escapes in it. It is empty where there is none.
func jsonStringField(text []byte, name string) []byte {
	_, value, _ := bytes.Cut(text, []byte(`"`+name+`":"`))
	value, _, _ = bytes.Cut(value, []byte(`"`))
	return value
}
