package scheduler

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// openJob is what a frontend knows of an open job of its own.
type openJob struct {
	submission
	from  int        // tokens of its prompt
	held  bool       // all Results have come that do before its next word
	early *wire.Next // its word on how the job goes on when that has come as far
}

// submitOpen makes a submission one of an open job.
func (h *history) submitOpen(m *submission) {
	m.Open, m.MaxTokens = true, 1+h.pick.IntN(2)
	m.Ask.PromptLogprobs = h.pick.IntN(4) == 0
	m.Ask.Bans = []engine.Ban{{Tokens: make([]engine.TokenID, 1+h.pick.IntN(4))}}
	h.opened[m.Job] = &openJob{submission: *m, from: len(m.Tokens)}
}

// heldJobs lists the open jobs that wait for a frontend's word.
func (h *history) heldJobs() (list []engine.JobID) {
	for _, id := range slices.Sorted(maps.Keys(h.opened)) {
		if _, open := h.open[id]; open && h.opened[id].held {
			list = append(list, id)
		}
	}
	return list
}

// goOn lets a frontend say how one of the jobs goes on that wait for that.
func (h *history) goOn() {
	if held := h.heldJobs(); len(held) > 0 {
		id := held[h.pick.IntN(len(held))]
		j := h.opened[id]
		switch h.pick.IntN(6) {
		case 0:
			h.again(id, j)
		case 1:
			h.again(id, j)
			if j.early = h.nextOf(id, j, h.tokens[id]+1); !j.held {
				h.send(h.open[id], j.early)
			}
		default:
			h.say(id, j, h.pick.IntN(3) > 0)
		}
	}
}

// nextOf is a word on how a job goes on from so many generated tokens.
func (h *history) nextOf(id engine.JobID, j *openJob, generated int) *wire.Next {
	forced := tokens(0, h.pick.IntN(7))
	return &wire.Next{Job: id, Generated: generated + len(forced), Tokens: forced, Allowed: engine.NewTokenSet(engine.TokenID(h.pick.IntN(50))), Open: true}
}

// say has a job go on, and says so twice at times.
func (h *history) say(id engine.JobID, j *openJob, open bool) {
	m := h.nextOf(id, j, h.tokens[id])
	m.Open, j.Open = open, open
	h.take(id, j, m)
	h.send(h.open[id], m)
	if from, there := h.open[id]; there && h.pick.IntN(8) == 0 && h.tokens[id] == m.Generated {
		h.send(from, m)
		h.send(from, h.opened[id].message()) // which is no news
	}
}

// take notes how a job goes on.
func (h *history) take(id engine.JobID, j *openJob, m *wire.Next) {
	h.whole[id] = append(slices.Clip(h.whole[id]), m.Tokens...)
	h.tokens[id] += len(m.Tokens)
	j.Ask.Allowed, j.Ask.PromptLogprobs, j.MaxTokens, j.held = m.Allowed, false, 1, false
	h.onward++
}

// again submits a job that is held once more, with what its frontend knows: perhaps without the last token, whose Result was
// lost.
func (h *history) again(id engine.JobID, j *openJob) {
	if h.tokens[id]--; h.pick.IntN(2) == 0 || j.early != nil {
		h.tokens[id]++
	} else {
		h.whole[id] = slices.Clip(h.whole[id][:len(h.whole[id])-1])
	}
	j.Tokens, j.Generated, j.MaxTokens, j.Waited = slices.Clone(h.whole[id]), h.tokens[id], 1, 1
	if j.Ask.PromptLogprobs = h.tokens[id] == 0 && h.scored[id] > 0; !j.Ask.PromptLogprobs {
		delete(h.scored, id)
	}
	j.held = false
	h.resubmitted++
	h.send(h.open[id], j.message())
}

// answered notes that a Result of an open job has come.
func (h *history) answered(r *wire.Result) {
	j := h.opened[r.Job]
	if j == nil || r.Err != nil {
		return
	}
	if !j.Open {
		return
	}
	if r.Finish != engine.FinishNone {
		h.t.Fatalf("an open job ends: %s", describeResult(r))
	}
	if j.MaxTokens--; j.MaxTokens > 0 {
		return
	}
	j.held = true
	if m := j.early; m != nil {
		j.early = nil
		if m.Generated-len(m.Tokens) == h.tokens[r.Job] {
			h.take(r.Job, j, m)
		}
	}
}

// checkAllowed holds that an item of an open job may choose what its frontend has said last.
func (h *history) checkAllowed(item *part) {
	if j := h.opened[item.Job]; j != nil && !slices.Equal(item.Ask.Allowed.IDs(), j.Ask.Allowed.IDs()) {
		h.t.Fatalf("job %v may choose %v, its frontend has said %v", item.Job, item.Ask.Allowed.IDs(), j.Ask.Allowed.IDs())
	}
}

// TestOpenJobsGoOn holds that enough open jobs of random histories go on, in which executors die, passes fail, and messages
// to and from frontends are lost.
func TestOpenJobsGoOn(t *testing.T) {
	onward, again := 0, 0
	for seed := range *histories / 50 {
		rng := rand.New(rand.NewPCG(uint64(seed), 57))
		h := newHistory(t, rng, DefaultConfig(), nil)
		h.deep = true
		for range 150 {
			h.move()
		}
		h.drain()
		onward, again = onward+h.onward, again+h.resubmitted
	}
	if onward < *histories/25 || again < *histories/100 {
		t.Errorf("%d times a job went on, %d times one was submitted again: too few to tell", onward, again)
	}
}
