package scheduler

import (
	"reflect"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestKnownScores: a prompt that begins as one before did is asked for the log-probabilities of the rest alone, and its client
// gets all of them.
func TestKnownScores(t *testing.T) {
	w := basic(t, nil)
	// scored answers a prompt's pass as a model does whose every score is a number of the tokens up to there.
	scored := func(job engine.JobID, prompt []engine.TokenID, top int) (cached, known int) {
		t.Helper()
		run := runs(w.submit("web", &submission{Job: job, Tokens: prompt, Ask: engine.Ask{PromptLogprobs: true, PromptTop: top}}))[0]
		it := item(run, 0)
		out := &engine.TokenOutput{Prompt: scoresOf(prompt, it.Ask.PromptTop)[max(it.Known, 1)-1:]}
		r := results(w.step("cpu", &wire.Done{Pass: run.Pass, Items: []wire.ItemResult{{Job: job, Output: out}}}))[0]
		if r.Err != nil || len(output(r).Prompt) != len(prompt)-1 || output(r).Answer != nil || r.Finish != engine.FinishLength {
			t.Fatalf("answered with %+v", r)
		}
		if want := scoresOf(prompt, top); !reflect.DeepEqual(output(r).Prompt, want) {
			t.Errorf("the scores are %v, want %v", output(r).Prompt, want)
		}
		return it.Cached, it.Known
	}
	prompt := tokens(1, 18) // four blocks of 4 and a part
	other := append(tokens(1, 8), 99, 98, 97, 96, 95)
	for i, c := range []struct {
		what          string
		prompt        []engine.TokenID
		top           int
		cached, known int
	}{
		{"cold", prompt, 2, 0, 0},
		{"the same", prompt, 2, 12, 16},
		{"less of it", prompt[:8], 2, 4, 8},
		{"with fewer others", prompt, 0, 12, 16},
		{"with more others", prompt, 3, 0, 0},
		{"and again", prompt, 3, 12, 16},
		{"another end", other, 2, 4, 8},
		{"less than a block", prompt[:3], 1, 0, 0},
	} {
		if cached, known := scored(engine.JobID(10+i), c.prompt, c.top); cached != c.cached || known != c.known {
			t.Errorf("%s: %d tokens are cached and %d known, want %d and %d", c.what, cached, known, c.cached, c.known)
		}
	}
	w.step("web", &wire.Reset{Serial: 1})
	if cached, known := scored(30, prompt, 2); cached != 0 || known != 0 {
		t.Errorf("after a reset %d tokens are cached and %d known", cached, known)
	}
	short := runs(w.submit("web", &submission{Job: 31, Tokens: prompt, Ask: engine.Ask{PromptLogprobs: true}}))[0]
	r := results(w.step("cpu", &wire.Done{Pass: short.Pass, Items: []wire.ItemResult{{Job: 31, Output: &engine.TokenOutput{Prompt: make([]engine.PromptScore, 17)}}}}))[0]
	if r.Err == nil || r.Err.Code != engine.CodeInternal {
		t.Errorf("scores of all positions answer a pass that was asked for two: %+v", r)
	}
}

// TestScoresTogether: of prompts that begin alike, come together and ask for their positions' scores, what they share is computed
// and scored once, and all of them get the scores of all their positions.
func TestScoresTogether(t *testing.T) {
	const prompts, shared, own = 16, 41, 7
	for _, tt := range []struct {
		name   string
		tops   int // how many different numbers of the likeliest are asked for
		cached int // tokens of which a prompt that asks for no scores has left the keys and values
		passes int
	}{
		{"of one kind", 1, 0, 2},
		{"with more and fewer of the likeliest", 3, 0, 4},
		{"of which the cache has a part", 1, 15, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := basic(t, nil)
			info := executorInfo()
			info.CopiesParts, info.CostBase, info.CostToken = true, time.Second, time.Millisecond
			w.executor("cpu", 2, info)
			whole := map[engine.JobID][]engine.TokenID{}
			var out []Envelope
			if tt.cached > 0 {
				w.step("cpu", answer(runs(w.submit("web", &submission{Job: 99, Tokens: tokens(1, tt.cached), MaxTokens: 1}))[0], time.Second))
			}
			for i := range prompts {
				prompt := append(tokens(1, shared), tokens(20+i, own)...)
				whole[engine.JobID(i+1)] = prompt
				out = append(out, w.submit("web", &submission{
					Job: engine.JobID(i + 1), Tokens: prompt, Request: 1, Ask: engine.Ask{PromptLogprobs: true, PromptTop: (prompts - i) % tt.tops},
				})...)
			}
			passes, rows, scored, answered := 0, 0, 0, 0
			for ; len(runs(out)) > 0; passes++ {
				run := runs(out)[0]
				done := &wire.Done{Pass: run.Pass}
				for _, it := range parts(run) {
					found := scoresOf(whole[it.Job], it.Ask.PromptTop)[max(it.Known, 1)-1:]
					rows, scored = rows+it.Len()-it.Cached, scored+len(found)
					done.Items = append(done.Items, wire.ItemResult{Job: it.Job, Output: &engine.TokenOutput{Prompt: found}})
				}
				out = w.step("cpu", done)
				for _, r := range results(out) {
					answered++
					if got := output(r).Prompt; !reflect.DeepEqual(logprobs(got), logprobs(scoresOf(whole[r.Job], 0))) {
						t.Errorf("job %v has the scores %v", r.Job, got)
					}
				}
			}
			// Beyond its own tokens, a prompt computes what is shared beyond the last whole block, and the token before that.
			most := tt.tops*shared + prompts*(own+shared%4+1)
			if answered != prompts || passes > tt.passes || rows > most || scored > most {
				t.Errorf("%d of %d prompts were answered, in %d passes that computed %d tokens and scored %d; want %d passes and at most %d tokens",
					answered, prompts, passes, rows, scored, tt.passes, most)
			}
		})
	}
}

// TestScoresOfEnds: prompts that are scored from a position on read what comes before it from the cache, and share its keys and
// values as prompts do that are asked for their answers.
func TestScoresOfEnds(t *testing.T) {
	const prompts, shared, own = 16, 41, 3
	w := basic(t, nil)
	info := executorInfo()
	info.CopiesParts, info.CostBase, info.CostToken = true, time.Second, time.Millisecond
	w.executor("cpu", 2, info)
	var out []Envelope
	whole := map[engine.JobID][]engine.TokenID{}
	for i := range prompts {
		id := engine.JobID(i + 1)
		whole[id] = append(tokens(1, shared), tokens(20+i, own)...)
		out = append(out, w.submit("web", &submission{Job: id, Tokens: whole[id], Request: 1, Ask: engine.Ask{PromptLogprobs: true, PromptFrom: shared}})...)
	}
	passes, rows := 0, 0
	for ; len(runs(out)) > 0; passes++ {
		run := runs(out)[0]
		done := &wire.Done{Pass: run.Pass}
		for _, it := range parts(run) {
			if it.Known != shared {
				t.Errorf("job %v is scored from position %d on, want %d", it.Job, it.Known, shared)
			}
			rows += it.Len() - it.Cached
			done.Items = append(done.Items, wire.ItemResult{Job: it.Job, Output: &engine.TokenOutput{Prompt: scoresOf(whole[it.Job], 0)[it.Known-1:]}})
		}
		out = w.step("cpu", done)
		for _, r := range results(out) {
			if got, want := output(r).Prompt, scoresOf(whole[r.Job], 0)[shared-1:]; !reflect.DeepEqual(got, want) {
				t.Errorf("job %v has the scores %v, want %v", r.Job, got, want)
			}
		}
	}
	if most := shared + own + (prompts-1)*(own+1+shared%4); passes != 2 || rows > most {
		t.Errorf("%d passes computed %d tokens, want 2 and at most %d", passes, rows, most)
	}
	whole[99] = tokens(1, shared)
	run := runs(w.submit("web", &submission{Job: 99, Tokens: whole[99], Ask: engine.Ask{PromptLogprobs: true}}))[0]
	if it := item(run, 0); it.Known != 0 || it.Cached != 0 {
		t.Errorf("scores of ends alone are taken for those of %d positions", it.Known)
	}
}

func logprobs(scores []engine.PromptScore) (list []float32) {
	for _, s := range scores {
		list = append(list, s.Logprob)
	}
	return list
}
