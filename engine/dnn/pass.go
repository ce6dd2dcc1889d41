package dnn

import (
	"errors"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/mapped"
)

// Pass is one Run in progress. Its items are computed one after the other, so that none changes another's bits. Of
// an item that is half computed all is in one area of the Workspace.
type Pass struct {
	m       *Model
	work    *Workspace
	area    int
	results []wire.ItemResult
	items   []item
	settled bool    // there are plans of all items that are not refused
	ended   bool    // the last step is done
	at      int     // the item that is being computed
	done    float64 // seconds of items before it, as they are estimated
	whole   float64 // of all
}

// item is a run's item.
type item struct {
	work
	plan    *compiled // nil before the pass is settled, and of one that is refused
	run     *plan.Run // nil before its first step
	outputs []output
}

// output is a tensor that was computed.
type output struct {
	ref  engine.Ref // but for Blob
	data []byte
}

// Begin checks a run. An item that is malformed or too large gets its refusal in Results and does not hinder the
// others. The pass takes its memory with its first step, from which on it is at no boundary. The error is an
// *engine.Error.
func (m *Model) Begin(run *wire.Run) (*Pass, error) {
	if !m.Ready() {
		return nil, engine.Errorf(engine.CodeInternal, "the weights are not all loaded, or there is no working memory")
	}
	if len(run.Items) > maxPassItems {
		return nil, engine.Errorf(engine.CodeInternal, "a pass of %d jobs, the limit is %d", len(run.Items), maxPassItems)
	}
	p := &Pass{m: m, work: m.work, area: ownArea, results: make([]wire.ItemResult, len(run.Items)), items: make([]item, len(run.Items))}
	if run.Nested {
		p.area = nestedArea
	}
	for i := range p.items {
		it := &p.items[i]
		p.results[i].Job = run.Items[i].Job
		it.work, p.results[i].Err = m.checkItem(run.Items[i].Work)
	}
	return p, nil
}

// Prepare is what makes the plans that there are not yet; nil if there is none to be made. It is called by any goroutine,
// and nothing else is asked of the pass until it has returned.
func (p *Pass) Prepare() func() {
	for i := range p.items {
		if p.results[i].Err == nil && !p.m.plans.hasPlan(p.items[i].recipe) {
			return p.settlePlans
		}
	}
	return nil
}

// settlePlans finds or makes the plans of all items, or refuses those that have none.
func (p *Pass) settlePlans() {
	for i := range p.items {
		if it := &p.items[i]; p.results[i].Err == nil {
			if it.plan, p.results[i].Err = p.m.findPlan(&it.work); it.plan != nil {
				p.whole += it.plan.seconds()
			}
		}
	}
	p.settled = true
	p.skipToItem()
}

// skipToItem goes on to the next item that is to be computed.
func (p *Pass) skipToItem() {
	for p.at < len(p.items) && p.results[p.at].Err != nil {
		p.at++
	}
}

// Boundary says that nothing of the pass is in the Workspace.
func (p *Pass) Boundary() bool { return p.work.running[p.area] != p }

// Share is how much of the pass is done.
func (p *Pass) Share() float64 {
	switch {
	case p.ended:
		return 1
	case !p.settled || p.at == len(p.items): // all are refused
		return 0
	}
	it := &p.items[p.at]
	if it.run == nil {
		return min(p.done/p.whole, 1-1e-9)
	}
	return min((p.done+it.run.Share()*it.plan.seconds())/p.whole, 1-1e-9)
}

// Step computes the next part of an item, or with the last one brings its outputs out of the Workspace.
func (p *Pass) Step() (done bool, err error) {
	if !p.settled {
		p.settlePlans()
	}
	if p.at == len(p.items) {
		p.ended = true
		return true, nil
	}
	if other, ok := p.work.running[p.area].(*Pass); ok && other != p {
		return false, engine.Errorf(engine.CodeInternal, "a pass of networks is to go on while another one is half computed")
	}
	p.work.running[p.area] = p
	it := &p.items[p.at]
	var ended bool
	err = mapped.Guard(func() (err error) { // constants may be parts of files
		ended, err = p.computeItem(it)
		return err
	})
	if isDeviceLost(err) {
		return false, err
	}
	if err != nil {
		p.results[p.at].Err = itemError(err)
	}
	if ended || err != nil {
		p.work.running[p.area] = nil
		p.done += it.plan.seconds()
		it.run = nil
		p.at++
		p.skipToItem()
	}
	p.ended = p.at == len(p.items)
	return p.ended, nil
}

// isDeviceLost says that no pass will succeed any more.
func isDeviceLost(err error) bool {
	var device interface{ DeviceLost() bool }
	return errors.As(err, &device) && device.DeviceLost()
}

// computeItem takes a step of an item.
func (p *Pass) computeItem(it *item) (ended bool, err error) {
	if it.run == nil {
		if it.run, err = p.m.bind(it.plan, p.work, p.area); err != nil {
			return false, err
		}
		it.run.Start()
		if err := p.read(it); err != nil {
			return false, err
		}
	}
	if ended, err = it.run.Step(); err != nil || !ended {
		return false, err
	}
	return true, it.collect()
}

// read gives a plan its inputs.
func (p *Pass) read(it *item) error {
	for i := range it.inputs {
		ref := &it.inputs[i]
		n, _ := ref.Bytes()
		data := make([]byte, n)
		if err := p.m.blobs.Read(ref.Blob, data); err != nil {
			return engine.Errorf(engine.CodeInternal, "tensor %s: blob: %v", ref.Name, err)
		}
		if err := it.run.SetInput(ref.Name, data); err != nil {
			return err
		}
	}
	return nil
}

// collect copies the outputs that are wanted.
func (it *item) collect() error {
	for i, at := range it.wanted {
		v := it.plan.Outputs[at]
		out := output{ref: engine.Ref{Name: it.names[i], Type: v.Type, Shape: slices.Clone(it.run.OutputShape(at))}}
		n, ok := out.ref.Bytes()
		if !ok || n > maxTensor {
			return engine.Errorf(engine.CodeTooLong, "output %s of the shape %v has more than %d bytes", out.ref.Name, out.ref.Shape, maxTensor)
		}
		out.data = make([]byte, n)
		if err := it.run.ReadOutput(at, out.data); err != nil {
			return err
		}
		it.outputs = append(it.outputs, out)
	}
	return nil
}

// Results puts the outputs where who asked for them takes them. It is called once.
func (p *Pass) Results() []wire.ItemResult {
	for i := range p.items {
		if p.results[i].Err != nil {
			continue
		}
		found := &engine.TensorOutput{}
		for _, out := range p.items[i].outputs {
			blob, err := p.m.blobs.Put(out.data)
			if err != nil {
				p.results[i].Err = engine.Errorf(engine.CodeOverloaded, "output %s of job %v cannot be kept: %v; come back later", out.ref.Name, p.results[i].Job, err)
				found = nil
				break
			}
			out.ref.Blob = blob
			found.Outputs = append(found.Outputs, out.ref)
		}
		if found != nil {
			p.results[i].Output = found
		}
	}
	return p.results
}

// Close drops the pass, finished or not.
func (p *Pass) Close() {
	if p.work.running[p.area] == p {
		p.work.running[p.area] = nil
	}
	for i := range p.items {
		if it := &p.items[i]; it.plan != nil {
			p.m.plans.release(it.plan)
			it.plan = nil
		}
	}
	p.m.plans.trim()
}
