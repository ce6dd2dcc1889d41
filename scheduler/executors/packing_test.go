package executors

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

func testItem(tokens int, request engine.JobID) PackedItem {
	return PackedItem{Job: &queue.Job{Sequence: queue.Sequence{Prompt: make([]engine.TokenID, tokens)}}, Request: request}
}

// TestPays: an empty pass costs as much as 10 tokens.
func TestPays(t *testing.T) {
	m := cost.New(wire.Cost{Base: time.Second, Unit: 100 * time.Millisecond})
	for _, tt := range []struct {
		name    string
		items   []PackedItem
		rival   float64 // weight of another instance's next job, before which 5 wait; 0: none
		job     PackedItem
		waiting int
		pays    bool
	}{
		{"a short job", []PackedItem{testItem(50, 0)}, 0, testItem(9, 0), 1, true},
		{"a long one", []PackedItem{testItem(50, 0)}, 0, testItem(11, 0), 1, false},
		{"a long one before others", []PackedItem{testItem(50, 0)}, 0, testItem(11, 0), 2, true},
		{"one that delays two", []PackedItem{testItem(50, 0), testItem(1, 0)}, 0, testItem(9, 0), 1, false},
		{"of the request of both", []PackedItem{testItem(50, 7), testItem(1, 7)}, 0, testItem(9, 7), 1, true},
		{"the same, longer than a base cost", []PackedItem{testItem(50, 7), testItem(1, 7)}, 0, testItem(11, 7), 1, false},
		{"beside one that comes back", []PackedItem{{Job: testItem(50, 0).Job, Again: true}}, 0, testItem(11, 0), 1, true},
		{"before another instance's", []PackedItem{testItem(50, 0)}, 2, testItem(9, 0), 1, true},
		{"after another instance's", []PackedItem{testItem(50, 0)}, 0.5, testItem(9, 0), 1, false},
	} {
		p := newPacking(&m)
		for _, i := range tt.items {
			p.AddItem(i)
		}
		if tt.rival > 0 {
			p.AddRival(tt.rival, 5)
		}
		if got := p.PaysFor(tt.job, tt.waiting, 1); got != tt.pays {
			t.Errorf("%s: it pays: %t, want %t", tt.name, got, tt.pays)
		}
	}
}

// TestFills: two jobs whose prompts begin with the same block that is not on the device.
func TestFills(t *testing.T) {
	m := cost.New(wire.Cost{})
	job := func(first byte) PackedItem {
		i := testItem(6, 0)
		i.Chain, i.ChainOf = []kvcache.Hash{{first}}, 4
		return i
	}
	p := newPacking(&m)
	p.AddItem(job(1))
	if !p.FillsNextBlockOf(job(1)) || p.FillsNextBlockOf(job(2)) {
		t.Errorf("the pass fills the block of the same prompt: %t, of another: %t", p.FillsNextBlockOf(job(1)), p.FillsNextBlockOf(job(2)))
	}
	cached := job(1)
	cached.Cached = 1
	if p.FillsNextBlockOf(cached) || p.Rows != 6 {
		t.Errorf("what is cached is filled: %t; the pass has %d rows, want 6", p.FillsNextBlockOf(cached), p.Rows)
	}
}

// TestScores: a job that asks for the scores of a block which the pass scores too finds them in the next one.
func TestScores(t *testing.T) {
	m := cost.New(wire.Cost{})
	job := func(first byte, known, top int) PackedItem {
		i := testItem(9, 0)
		i.Chain, i.ChainOf, i.Whole, i.Known, i.Scored, i.Top = []kvcache.Hash{{first}, {first, 1}}, 4, true, known, true, top
		return i
	}
	plain := testItem(9, 0)
	plain.Chain, plain.ChainOf = job(1, 0, 0).Chain, 4
	p := newPacking(&m)
	p.AddItem(job(1, 0, 2))
	for _, tt := range []struct {
		name  string
		job   PackedItem
		fills bool
	}{
		{"the same", job(1, 0, 2), true},
		{"with fewer others", job(1, 0, 0), true},
		{"with more others", job(1, 0, 3), false},
		{"of another block", job(2, 0, 2), false},
		{"of which the block is known", job(1, 4, 2), false},
		{"of which all is known", job(3, 8, 2), false},
		{"that is asked for its answer alone", plain, true},
	} {
		if got := p.FillsNextBlockOf(tt.job); got != tt.fills {
			t.Errorf("a prompt %s: it is worth waiting: %t, want %t", tt.name, got, tt.fills)
		}
	}
}
