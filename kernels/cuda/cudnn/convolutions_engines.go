package cudnn

import (
	"fmt"
)

// ConvolutionOptions are the settings of NewConvolutions.
type ConvolutionOptions struct {
	Source *Source // opened with the first filter
	// Workspace is device memory that runs may use, of WorkspaceBytes: a plan that needs more is not used.
	Workspace      uint64
	WorkspaceBytes int64
	Wait           func()       // returns when the device has computed what is enqueued
	Note           func(string) // is told what the log should say
}

// Convolutions computes convolutions of the kinds for which cuDNN has an engine that fits.
type Convolutions struct {
	options ConvolutionOptions
	library *Library // nil before Open, or where there is none
	asked   bool     // whether there is one
	engines map[ConvolutionKind]*Engine
	plans   map[convolutionKey]*ConvolutionPlan
}

type convolutionKey struct {
	ConvolutionKind
	ConvolutionGeometry
}

// NewConvolutions is a library that is opened when it is first needed.
func NewConvolutions(o ConvolutionOptions) *Convolutions {
	if o.Note == nil {
		o.Note = func(string) {}
	}
	return &Convolutions{options: o, engines: map[ConvolutionKind]*Engine{}, plans: map[convolutionKey]*ConvolutionPlan{}}
}

// Close frees the plans, before the source is closed.
func (l *Convolutions) Close() { l.freePlans() }

func (l *Convolutions) freePlans() {
	for _, p := range l.plans {
		p.plan.Free()
	}
	clear(l.plans)
}

// Open says whether there is a cuDNN to ask. The first time it opens it, and notes what computes convolutions.
func (l *Convolutions) Open() bool {
	if l.asked {
		return l.library != nil
	}
	l.asked = true
	library, err := l.options.Source.Library()
	if err != nil {
		l.options.Note(fmt.Sprintf("convolutions by our own kernels: %v", err))
		return false
	}
	l.library = library
	l.options.Note("cuDNN " + library.Version() + " for convolutions")
	return true
}

// Covers says whether cuDNN computes convolutions of this kind. The first time it chooses an engine and has trial
// use it, with Plan; a refusal of either is noted, and the kind stays with our own kernels.
func (l *Convolutions) Covers(k ConvolutionKind, trial func() error) bool {
	if e, known := l.engines[k]; known {
		return e != nil
	}
	if !l.Open() {
		return false
	}
	e, err := l.choose(k)
	if l.engines[k] = e; err == nil {
		err = trial()
	}
	if err != nil {
		l.refuseKind(k, err)
	}
	return err == nil
}

// refuseKind leaves a kind to our own kernels from now on, and notes it.
func (l *Convolutions) refuseKind(k ConvolutionKind, err error) {
	l.options.Note(fmt.Sprintf("convolutions %v by our own kernels, not by cuDNN %s: %v", k, l.library.Version(), err))
	l.engines[k] = nil
}

// mostEngines is how many engines a heuristic is asked for.
const mostEngines = 32

// choose is the first engine that fits, by cuDNN's order: of the recommended heuristic, or else of the fallback.
// A typical image decides, so that the choice does not depend on which image comes first.
func (l *Convolutions) choose(k ConvolutionKind) (*Engine, error) {
	err := fmt.Errorf("it has no engine that computes float32 without tensor cores, each sum in one order")
	for _, mode := range []HeuristicMode{HeuristicA, HeuristicFallback} {
		engines, failed := l.listEngines(k, mode)
		if failed != nil {
			err = failed
		}
		for _, e := range engines {
			if !fitsFloat32(e) {
				continue
			}
			if _, failed := l.build(k, typicalGeometry(k), e); failed == nil {
				return &e, nil
			} else {
				err = failed
			}
		}
	}
	return nil, err
}

func (l *Convolutions) listEngines(k ConvolutionKind, mode HeuristicMode) ([]Engine, error) {
	g, operations := describeConvolution(l.library, k, typicalGeometry(k))
	defer g.Free()
	return g.Engines(operations, mode, mostEngines)
}

// ConvolutionPlan is a kernel for one geometry.
type ConvolutionPlan struct {
	plan *Plan
	l    *Convolutions
	kind ConvolutionKind
}

// mostPlans are kept before all of them are thrown away; those of a network are one for each of its convolutions.
const mostPlans = 4096

// Plan is the plan of a kind that is covered: the one that is held, or one that is made now.
func (l *Convolutions) Plan(k ConvolutionKind, g ConvolutionGeometry) (*ConvolutionPlan, error) {
	if p, ok := l.plans[convolutionKey{k, g}]; ok {
		return p, nil
	}
	p, err := l.build(k, g, *l.engines[k])
	if err != nil {
		return nil, fmt.Errorf("%+v: %w", g, err)
	}
	return p, nil
}

// Prepared is Plan for a call. Where that fails the kind is left to our own kernels from now on, so that not some of
// an image's rows are computed by one and others by another.
func (l *Convolutions) Prepared(k ConvolutionKind, g ConvolutionGeometry) (*ConvolutionPlan, bool) {
	p, err := l.Plan(k, g)
	if err != nil {
		l.refuseKind(k, err)
	}
	return p, err == nil
}

// build compiles a plan and keeps it.
func (l *Convolutions) build(k ConvolutionKind, g ConvolutionGeometry, e Engine) (*ConvolutionPlan, error) {
	if len(l.plans) >= mostPlans {
		l.options.Wait()
		l.freePlans()
	}
	graph, operations := describeConvolution(l.library, k, g)
	plan, err := graph.Build(operations, e)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", e, err)
	}
	if need := plan.Workspace(); need > l.options.WorkspaceBytes {
		plan.Free()
		return nil, fmt.Errorf("%v wants a workspace of %d bytes, and %d are set aside", e, need, l.options.WorkspaceBytes)
	}
	p := &ConvolutionPlan{plan, l, k}
	l.plans[convolutionKey{k, g}] = p
	return p, nil
}

// Run enqueues a convolution. The addresses are in device memory: filter is [out][kernel][in of the group], bias, of
// a Kind that has one, a multiple of 16.
func (p *ConvolutionPlan) Run(input, filter, output, bias uint64) error {
	uids, addresses := []int64{uidInput, uidFilter, uidOutput, uidBias}, []uint64{input, filter, output, bias}
	n := len(uids)
	if !p.kind.Bias {
		n--
	}
	if err := p.plan.Run(uids[:n], addresses[:n], p.l.options.Workspace); err != nil {
		return fmt.Errorf("convolution %v by cuDNN: %w", p.kind, err)
	}
	return nil
}
