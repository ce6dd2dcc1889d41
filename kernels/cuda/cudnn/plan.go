package cudnn

// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// Knob is a choice that makes one kernel of an engine (a tile, a split): cudnnBackendKnobType_t and its value.
type Knob struct{ Type, Value int64 }

// Engine is one of cuDNN's kernels.
type Engine struct {
	Index int64
	Knobs []Knob
	Notes []Note
}

func (e Engine) String() string {
	s := fmt.Sprintf("engine %d", e.Index)
	for _, k := range e.Knobs {
		s += fmt.Sprintf(" %d=%d", k.Type, k.Value)
	}
	return s
}

// splits are the knobs that divide one sum among blocks of threads, where they are not 0 or 1.
var splits = []int64{C.KNOB_SPLIT_K, C.KNOB_SPLIT_K_BUF, C.KNOB_CTA_SPLIT_K_MODE, C.KNOB_SPLIT_K_SLC, C.KNOB_SPLIT_RS}

// Splits says whether blocks of threads share a sum, so that a result's bits depend on how large the whole is.
func (e Engine) Splits() bool {
	return slices.ContainsFunc(e.Knobs, func(k Knob) bool {
		return k.Type == C.KNOB_STREAM_K && k.Value != 0 || slices.Contains(splits, k.Type) && k.Value != 0 && k.Value != 1
	})
}

// maxKnobs and maxNotes are more than an engine has.
const maxKnobs, maxNotes = 32, 16

// Engines asks a heuristic for at most so many engines, the best one first. The graph keeps what is made for that.
func (g *Graph) Engines(operations Descriptor, mode HeuristicMode, most int) ([]Engine, error) {
	heuristic := g.Make(C.ENGINEHEUR)
	g.Parts(heuristic, C.ENGINEHEUR_OPERATION_GRAPH, operations)
	g.Kind(heuristic, C.ENGINEHEUR_MODE, mode)
	g.device(heuristic, C.ENGINEHEUR_DEVICEPROP)
	g.Finalize(heuristic)
	configs := make([]Descriptor, most)
	for i := range configs {
		configs[i] = g.Make(C.ENGINECFG)
	}
	n := g.get(heuristic, C.ENGINEHEUR_RESULTS, C.TYPE_DESCRIPTOR, most, unsafe.Pointer(unsafe.SliceData(configs)))
	engines := make([]Engine, n)
	for i := range engines {
		engines[i] = g.engine(configs[i])
	}
	if g.err == nil && n == 0 {
		g.err = errNoEngine
	}
	return engines, g.err
}

// engine reads the engine of a configuration that the heuristic gave.
func (g *Graph) engine(config Descriptor) Engine {
	var e Engine
	engine := g.Make(C.ENGINE)
	g.get(config, C.ENGINECFG_ENGINE, C.TYPE_DESCRIPTOR, 1, unsafe.Pointer(&engine))
	e.Index = g.int(engine, C.ENGINE_GLOBAL_INDEX)
	notes := make([]Note, maxNotes)
	e.Notes = notes[:g.get(engine, C.ENGINE_NUMERICAL_NOTE, C.TYPE_NUMERICAL_NOTE, maxNotes, unsafe.Pointer(&notes[0]))]
	knobs := make([]Descriptor, maxKnobs)
	for i := range knobs {
		knobs[i] = g.Make(C.KNOB_CHOICE)
	}
	n := g.get(config, C.ENGINECFG_KNOB_CHOICES, C.TYPE_DESCRIPTOR, maxKnobs, unsafe.Pointer(&knobs[0]))
	for _, knob := range knobs[:n] {
		var typ int32
		g.get(knob, C.KNOB_CHOICE_KNOB_TYPE, C.TYPE_KNOB_TYPE, 1, unsafe.Pointer(&typ))
		e.Knobs = append(e.Knobs, Knob{int64(typ), g.int(knob, C.KNOB_CHOICE_KNOB_VALUE)})
	}
	return e
}

type knobType int32

func (t knobType) number() (int32, C.int) { return int32(t), C.TYPE_KNOB_TYPE }

// configure is the configuration of this engine and its knobs.
func (g *Graph) configure(operations Descriptor, e Engine) Descriptor {
	engine, config := g.Make(C.ENGINE), g.Make(C.ENGINECFG)
	g.Parts(engine, C.ENGINE_OPERATION_GRAPH, operations)
	g.Ints(engine, C.ENGINE_GLOBAL_INDEX, e.Index)
	g.device(engine, C.ENGINE_DEVICEPROP)
	g.Finalize(engine)
	var knobs []Descriptor
	for _, k := range e.Knobs {
		knob := g.Make(C.KNOB_CHOICE)
		g.Kind(knob, C.KNOB_CHOICE_KNOB_TYPE, knobType(k.Type))
		g.Ints(knob, C.KNOB_CHOICE_KNOB_VALUE, k.Value)
		knobs = append(knobs, g.Finalize(knob))
	}
	g.Parts(config, C.ENGINECFG_ENGINE, engine)
	if len(knobs) > 0 {
		g.Parts(config, C.ENGINECFG_KNOB_CHOICES, knobs...)
	}
	return g.Finalize(config)
}

// Plan is a compiled kernel.
type Plan struct {
	graph     *Graph // what the plan is made of
	plan      Descriptor
	workspace int64
}

// Build compiles a plan with this engine. The graph is the plan's then, and is freed if that fails.
func (g *Graph) Build(operations Descriptor, e Engine) (*Plan, error) {
	p := g.begin()
	g.Parts(p.plan, C.EXECUTION_PLAN_ENGINE_CONFIG, g.configure(operations, e))
	return p.ready()
}

// Restore makes a plan of what Text gave; cuDNN judges whether it is one.
func (l *Library) Restore(text []byte) (*Plan, error) {
	g := l.Begin()
	p := g.begin()
	g.set(p.plan, C.EXECUTION_PLAN_JSON_REPRESENTATION, C.TYPE_CHAR, len(text), unsafe.Pointer(unsafe.SliceData(text)))
	return p.ready()
}

func (g *Graph) begin() *Plan {
	p := &Plan{graph: g, plan: g.Make(C.EXECUTION_PLAN)}
	g.handle(p.plan, C.EXECUTION_PLAN_HANDLE)
	g.device(p.plan, C.EXECUTION_PLAN_DEVICEPROP)
	return p
}

func (p *Plan) ready() (*Plan, error) {
	p.graph.Finalize(p.plan)
	p.workspace = p.graph.int(p.plan, C.EXECUTION_PLAN_WORKSPACE_SIZE)
	if p.graph.err != nil {
		p.Free()
		return nil, p.graph.err
	}
	return p, nil
}

// Free frees the plan.
func (p *Plan) Free() { p.graph.Free() }

// Workspace is how many bytes of device memory a run needs.
func (p *Plan) Workspace() int64 { return p.workspace }

// Text is the plan as cuDNN writes it, with the kernel's machine code.
func (p *Plan) Text() ([]byte, error) {
	size := p.text(nil)
	text := make([]byte, size)
	if size == 0 || p.text(text) != size {
		return nil, errors.New("cuDNN does not serialise the plan")
	}
	return text, nil
}

// text writes as much as there is room for, and returns the length of all; 0 after a failure.
func (p *Plan) text(to []byte) int {
	var written C.int64_t
	status := C.pf_cudnn_get(p.graph.library.c, p.plan.p, C.EXECUTION_PLAN_JSON_REPRESENTATION, C.TYPE_CHAR, C.int64_t(len(to)), &written,
		unsafe.Pointer(unsafe.SliceData(to)))
	if status != 0 {
		return 0
	}
	return max(0, int(written))
}

// Run enqueues the plan over tensors of these numbers, at these addresses: of a tensor that is ByValue that of the
// number in host memory, which is read before Run returns.
func (p *Plan) Run(uids []int64, addresses []uint64, workspace uint64) error {
	l := p.graph.library
	status := C.pf_cudnn_run(l.c, p.plan.p, C.int64_t(len(uids)), (*C.int64_t)(unsafe.SliceData(uids)), (*C.uint64_t)(unsafe.SliceData(addresses)),
		C.uint64_t(workspace))
	return l.err("cudnnBackendExecute", status)
}
