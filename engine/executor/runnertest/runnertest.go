// Package runnertest is the suite that every executor.Runner passes, whatever the kinds of its models.
package runnertest

import (
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Run tests the runner that open returns; it opens one for each test and closes it. Each kind of work of each
// of its models is tested. The runner has room for all of them at once.
func Run(t *testing.T, open func(t *testing.T) executor.Runner) {
	r := open(t)
	defer r.Close()
	models := r.Info().Models
	if len(models) == 0 {
		t.Fatal("the runner has no model")
	}
	for i := range models {
		for _, k := range kindsOf(r, &models[i]) {
			t.Run(models[i].Name+" "+k.name, func(t *testing.T) {
				for _, c := range append(common, k.tests...) {
					t.Run(c.name, func(t *testing.T) {
						r := open(t)
						defer r.Close()
						s := newSubject(t, r, i, k)
						s.load(s.model.Weights...)
						c.test(s)
					})
				}
			})
		}
	}
}

// kind is a kind of work.
type kind struct {
	name string
	// work makes some, of a size (in tokens, or so many to a frame), that differs with salt.
	work  func(s *subject, size, salt int) wire.ItemWork
	bad   func(s *subject) map[string]bad
	tests []test // of this kind alone
}

// bad is work that a runner refuses, with what the refusal names.
type bad struct {
	work  wire.ItemWork
	names []string
}

type test struct {
	name string
	test func(s *subject)
}

func kindsOf(r executor.Runner, m *wire.ModelInfo) []kind {
	_, blobs := r.(Blobs)
	switch {
	case m.Tokens != nil && m.Tokens.VectorsOnly:
		return []kind{vectors}
	case m.Tokens != nil:
		return []kind{tokens}
	case m.Tensors != nil && blobs && m.Tensors.Backward > 0:
		return []kind{tensors, gradients}
	case m.Tensors != nil && blobs:
		return []kind{tensors}
	}
	return nil
}

// common are the tests of every kind.
var common = []test{
	{"info", testInfo},
	{"steps", testSteps},
	{"same bits again", testRepeatable},
	{"same bits packed", testPacked},
	{"same bits interleaved", testInterleaved},
	{"same bits beside other models", testBeside},
	{"same bits around nested passes", testNested},
	{"same bits of lowest passes that stand still", testLowest},
	{"same bits loaded again", testLoadedAgain},
	{"dropped pass", testDropped},
	{"missing weights", testMissing},
	{"bad runs", testBadRuns},
	{"loads leave nothing", testLeavesNothing},
}

// subject is a model of a runner in a test.
type subject struct {
	*testing.T
	r     executor.Runner
	model wire.ModelInfo
	kind  kind
}

func newSubject(t *testing.T, r executor.Runner, model int, k kind) *subject {
	return &subject{T: t, r: r, model: r.Info().Models[model], kind: k}
}

// load brings weights onto the device.
func (s *subject) load(weights ...uint32) {
	s.Helper()
	for _, w := range weights {
		if err := executor.Load(s.r, s.model.Name, w); err != nil {
			s.Fatalf("Load of piece %d: %v", w, err)
		}
	}
}

func (s *subject) item(size, salt int) wire.RunItem {
	return wire.RunItem{Job: engine.JobID(salt), Work: s.kind.work(s, size, salt)}
}

func (s *subject) begin(items ...wire.RunItem) executor.Pass {
	s.Helper()
	p, err := s.r.Begin(&wire.Run{Pass: 1, Model: s.model.Name, Items: items})
	if err != nil {
		s.Fatalf("Begin: %v", err)
	}
	return p
}

// maxSteps is more than any pass of the suite has.
const maxSteps = 100_000

// stepAtMost steps p at most n times and reports whether it ended.
func (s *subject) stepAtMost(p executor.Pass, n int) bool {
	s.Helper()
	for range n {
		done, err := p.Step()
		if err != nil {
			s.Fatalf("Step: %v", err)
		}
		if done {
			return true
		}
	}
	return false
}

// toBoundary steps p once, and then on to a boundary; it reports whether it ended.
func (s *subject) toBoundary(p executor.Pass) bool {
	s.Helper()
	for range maxSteps {
		if s.stepAtMost(p, 1) {
			return true
		}
		if p.Boundary() {
			return false
		}
	}
	s.Fatalf("no boundary after %d steps", maxSteps)
	return false
}

// stepToEnd steps p to its end and returns what it found.
func (s *subject) stepToEnd(p executor.Pass) []outcome {
	s.Helper()
	if !s.stepAtMost(p, maxSteps) {
		s.Fatalf("the pass did not end after %d steps", maxSteps)
	}
	return s.outcomesOf(p.Results())
}

// run takes items that must succeed through a pass.
func (s *subject) run(items ...wire.RunItem) []outcome {
	s.Helper()
	p := s.begin(items...)
	defer p.Close()
	found := s.stepToEnd(p)
	if len(found) != len(items) {
		s.Fatalf("%d results for %d items", len(found), len(items))
	}
	for i := range found {
		if found[i].job != items[i].Job || found[i].err != nil {
			s.Fatalf("result %d is of job %v with error %v, want job %v", i, found[i].job, found[i].err, items[i].Job)
		}
	}
	return found
}

// outcome is a result, by value: a *engine.TokenOutput or tensors.
type outcome struct {
	job    engine.JobID
	err    *engine.Error
	output any
}

func (s *subject) outcomesOf(results []wire.ItemResult) []outcome {
	all := make([]outcome, len(results))
	for i, r := range results {
		all[i] = outcome{job: r.Job, err: r.Err, output: r.Output}
		if out, ok := r.Output.(*engine.TensorOutput); ok {
			var list []tensor
			for _, ref := range out.Outputs {
				list = append(list, s.byValue(ref))
			}
			all[i].output = list
		}
	}
	return all
}

// expectEqual compares outcomes bit by bit.
func (s *subject) expectEqual(how string, got, want []outcome) {
	s.Helper()
	if !reflect.DeepEqual(got, want) {
		s.Errorf("%s: %+v, want %+v", how, got, want)
	}
}
