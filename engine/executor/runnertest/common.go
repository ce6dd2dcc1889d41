package runnertest

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

func testInfo(s *subject) {
	info := s.r.Info()
	if info.Device == "" || s.model.Name == "" || s.model.Fingerprint == "" || s.model.Reason != "" {
		s.Errorf("Info = %+v, want a device, and of the model a name, a fingerprint and no reason not to run it", info)
	}
	if (s.model.Tokens == nil) == (s.model.Tensors == nil) {
		s.Errorf("Info = %+v, want limits of tokens or of tensors", info)
	}
	if l := s.model.Tokens; l != nil && (l.VocabSize < 2 || l.MaxModelLen < 2 || l.BlockTokens < 1 || l.NumBlocks < 0 || l.MaxPassRows < 1) {
		s.Errorf("limits %+v, want sizes", l)
	}
	if !reflect.DeepEqual(info, s.r.Info()) {
		s.Error("Info changed between two calls")
	}
}

// testSteps: a pass is at a boundary before its first step, and its share of work done rises to all of it.
func testSteps(s *subject) {
	p := s.begin(s.item(20, 1))
	defer p.Close()
	if !p.Boundary() || p.Share() != 0 {
		s.Errorf("before the first step: boundary %v, share %v", p.Boundary(), p.Share())
	}
	for done, before := false, 0.0; !done; {
		done = s.stepAtMost(p, 1)
		if now := p.Share(); now <= before || now > 1 || done != (now == 1) {
			s.Fatalf("the share rose from %v to %v with a step that was the last: %v", before, now, done)
		} else {
			before = now
		}
	}
}

func testRepeatable(s *subject) {
	it := s.item(60, 1)
	first := s.run(it)
	s.run(s.item(33, 2))
	s.expectEqual("again", s.run(it), first)
}

func testPacked(s *subject) {
	items := []wire.RunItem{s.item(5, 1), s.item(60, 2), s.item(1, 3)}
	together := s.run(items...)
	for i := range items {
		s.expectEqual("packed", together[i:i+1], s.run(items[i]))
	}
}

// testInterleaved steps two passes in turn, as a pre-emption does.
func testInterleaved(s *subject) {
	if !s.r.Info().CanPause {
		return
	}
	a, b := s.item(50, 1), s.item(20, 2)
	wantA, wantB := s.run(a), s.run(b)
	pa := s.begin(a)
	defer pa.Close()
	doneA := s.toBoundary(pa)
	pb := s.begin(b)
	defer pb.Close()
	s.expectEqual("in between", s.stepToEnd(pb), wantB)
	if doneA {
		s.expectEqual("before another", s.outcomesOf(pa.Results()), wantA)
	} else {
		s.expectEqual("paused", s.stepToEnd(pa), wantA)
	}
}

// testDropped drops passes after every number of steps.
func testDropped(s *subject) {
	it := s.item(30, 1)
	want := s.run(it)
	for steps, ended := 0, false; !ended; steps++ {
		p := s.begin(s.item(40, 2))
		ended = s.stepAtMost(p, steps)
		p.Close()
		s.expectEqual("after a dropped pass", s.run(it), want)
	}
}

// otherSubjects are subjects of the runner's other models, loaded.
func (s *subject) otherSubjects() (list []*subject) {
	for i, m := range s.r.Info().Models {
		for _, k := range kindsOf(s.r, &m) {
			if m.Name != s.model.Name {
				other := newSubject(s.T, s.r, i, k)
				other.load(m.Weights...)
				list = append(list, other)
			}
		}
	}
	return list
}

// testBeside runs a pass of another model at each boundary of a pass.
func testBeside(s *subject) {
	it := s.item(50, 1)
	want := s.run(it)
	for _, o := range s.otherSubjects() {
		other := o.item(40, 2)
		wantOther := o.run(other)
		p := s.begin(it)
		for ended := false; !ended; {
			ended = s.toBoundary(p)
			o.expectEqual(o.model.Name+" in between", o.run(other), wantOther)
		}
		s.expectEqual("with "+o.model.Name+" in between", s.outcomesOf(p.Results()), want)
		p.Close()
	}
}

// testNested nests a pass of each model that takes tensors into every step of a pass. Passes of tokens are
// nested in none.
func testNested(s *subject) {
	it := s.item(50, 1)
	want := s.run(it)
	for _, o := range append(s.otherSubjects(), s) {
		other := o.item(30, 2)
		wantOther := o.run(other)
		p := s.begin(it)
		for ended := false; !ended; {
			ended = s.stepAtMost(p, 1)
			nested, err := s.r.Begin(&wire.Run{Pass: 2, Model: o.model.Name, Nested: true, Items: []wire.RunItem{other}})
			if (err == nil) != (s.r.Info().Nests && o.model.Tensors != nil) {
				s.Fatalf("nesting a pass of %s: %v", o.model.Name, err)
			}
			if err == nil {
				o.expectEqual("nested", o.stepToEnd(nested), wantOther)
				nested.Close()
			}
		}
		s.expectEqual("around nested ones", s.outcomesOf(p.Results()), want)
		p.Close()
	}
}

// testLowest runs a pass of each model wherever a lowest pass stands still; one that finds no room beside it runs when that
// is closed. The runner computes one lowest pass at a time.
func testLowest(s *subject) {
	it := s.item(50, 1)
	want := s.run(it)
	for _, o := range append(s.otherSubjects(), s) {
		other := o.item(30, 2)
		wantOther := o.run(other)
		run := &wire.Run{Pass: 3, Model: s.model.Name, Lowest: true, Items: []wire.RunItem{it}}
		p, err := s.r.Begin(run)
		if err != nil {
			s.Fatalf("a lowest pass: %v", err)
		}
		for ended := false; !ended; {
			if ended = s.toBoundary(p); !ended {
				o.expectEqual("while a lowest pass stands still", o.run(other), wantOther)
			}
		}
		s.expectEqual("of a lowest pass", s.outcomesOf(p.Results()), want)
		p.Close()
		if p, err = s.r.Begin(run); err != nil {
			s.Fatalf("a second lowest pass: %v", err)
		}
		s.toBoundary(p)
		p.Close()
		o.expectEqual("after a lowest pass that was dropped", o.run(other), wantOther)
	}
}

// testLoadedAgain drops and loads the weights in other orders; those that are there may be loaded again.
func testLoadedAgain(s *subject) {
	it := s.item(30, 1)
	want := s.run(it)
	random := rand.New(rand.NewPCG(1, 2))
	shuffled := func() []uint32 {
		list := slices.Clone(s.model.Weights)
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list
	}
	for range 3 {
		for _, w := range shuffled() {
			s.r.Drop([]uint32{w})
		}
		order := shuffled()
		s.load(order...)
		s.load(order[:len(order)/2]...)
		s.expectEqual("loaded again", s.run(it), want)
	}
	s.r.Drop(shuffled()[:len(s.model.Weights)/2])
	s.load(s.model.Weights...)
	s.expectEqual("loaded again in part", s.run(it), want)
}

// testMissing: a model of whose weights one is missing is refused, and info tells which.
func testMissing(s *subject) {
	it := s.item(20, 1)
	want := s.run(it)
	for _, w := range s.model.Weights {
		s.r.Drop([]uint32{w})
		for i, told := range s.r.Info().Weights {
			if slices.Contains(s.model.Weights, uint32(i)) && told.Resident == (i == int(w)) {
				s.Errorf("without piece %d of the weights info tells of piece %d: %+v", w, i, told)
			}
		}
		if p, err := s.r.Begin(&wire.Run{Pass: 1, Model: s.model.Name, Items: []wire.RunItem{it}}); err == nil {
			p.Close()
			s.Errorf("a pass was begun without piece %d of the weights", w)
		}
		s.load(w)
		s.expectEqual("after a refusal", s.run(it), want)
	}
}

// testBadRuns: what is malformed is refused, by Begin or alone in its place, with the figure or name that is
// wrong; good work beside it and after it is done as ever.
func testBadRuns(s *subject) {
	if p, err := s.r.Begin(&wire.Run{Pass: 1, Model: "no such model", Items: []wire.RunItem{s.item(5, 1)}}); err == nil {
		p.Close()
		s.Error("a pass of a model that there is not was begun")
	} else if !strings.Contains(err.Error(), "no such model") {
		s.Errorf("a model that there is not: %v", err)
	}
	good := s.item(20, 1)
	want := s.run(good)
	for name, b := range s.kind.bad(s) {
		refusal := s.refusalFault(wire.RunItem{Job: 7, Work: b.work}, good, want)
		for _, part := range b.names {
			if !strings.Contains(refusal, part) {
				s.Errorf("%s: refused with %q, which has not %q", name, refusal, part)
			}
		}
		if refusal == "" {
			s.Errorf("%s: it was not refused", name)
		}
		s.expectEqual("after "+name, s.run(good), want)
	}
}

// refusalFault is what stands against an item that is packed with a good one.
func (s *subject) refusalFault(item, good wire.RunItem, want []outcome) string {
	s.Helper()
	p, err := s.r.Begin(&wire.Run{Pass: 1, Model: s.model.Name, Items: []wire.RunItem{item, good}})
	if err != nil {
		return err.Error()
	}
	defer p.Close()
	found := s.stepToEnd(p)
	s.expectEqual("beside a bad item", found[1:], want)
	if found[0].err == nil || found[0].job != item.Job {
		return ""
	}
	return found[0].err.Error()
}

// testLeavesNothing loads and drops all models again and again.
func testLeavesNothing(s *subject) {
	rounds := 100
	if testing.Short() {
		rounds = 3
	}
	it := s.item(10, 1)
	want := s.run(it)
	var all []uint32
	for i := range s.r.Info().Weights {
		all = append(all, uint32(i))
	}
	s.r.Drop(all)
	empty := heldBytes(s.r)
	for range rounds {
		s.load(s.model.Weights...)
		s.expectEqual("after many loads", s.run(it), want)
		s.r.Drop(all)
		if now := heldBytes(s.r); now != empty {
			s.Fatalf("%d bytes of weights are held after all were dropped, %d before", now, empty)
		}
	}
}

// heldBytes is the bytes of weights that a runner holds, if it tells.
func heldBytes(r executor.Runner) int64 {
	if h, ok := r.(interface{ Held() int64 }); ok {
		return h.Held()
	}
	return 0
}
