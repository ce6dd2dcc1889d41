package executor

import (
	"encoding/binary"
	"hash/fnv"
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Null is a Runner without a model: every token is equally likely, and a hash of the prompt chooses
// one. It is for measuring everything but the model.
type Null struct{ info wire.ExecutorInfo }

// NewNull makes a Null that calls itself info, which must have a vocabulary.
func NewNull(info wire.ExecutorInfo) *Null { return &Null{info: info} }

// Info implements Runner.
func (n *Null) Info() wire.ExecutorInfo { return n.info }

// Begin implements Runner.
func (n *Null) Begin(run *wire.Run) (Pass, error) {
	return &nullPass{vocab: n.info.VocabSize, run: run}, nil
}

// Close implements Runner.
func (n *Null) Close() {}

// nullPass has one layer, which does nothing.
type nullPass struct {
	vocab int
	run   *wire.Run
	layer int
}

func (p *nullPass) Step() (bool, error) { p.layer++; return true, nil }
func (p *nullPass) Layer() int          { return p.layer }
func (p *nullPass) Close()              {}

func (p *nullPass) Results() []wire.ItemResult {
	out := make([]wire.ItemResult, len(p.run.Items))
	for i := range out {
		item := &p.run.Items[i]
		out[i] = wire.ItemResult{Job: item.Job, Answer: p.answer(item), Prompt: p.prompt(item)}
	}
	return out
}

// support is the number of equally likely tokens, and nth the n-th of them.
func (p *nullPass) support(ask *engine.Ask) (int, func(n int) engine.TokenID) {
	if len(ask.Allowed) > 0 {
		return len(ask.Allowed), func(n int) engine.TokenID { return ask.Allowed[n] }
	}
	return p.vocab, func(n int) engine.TokenID { return engine.TokenID(n) }
}

func (p *nullPass) answer(item *wire.RunItem) *engine.Answer {
	n, nth := p.support(&item.Ask)
	logprob := float32(-math.Log(float64(n)))
	h := fnv.New64a()
	var word [4]byte
	for _, id := range item.Tokens {
		binary.LittleEndian.PutUint32(word[:], id)
		_, _ = h.Write(word[:])
	}
	a := &engine.Answer{Token: nth(int(h.Sum64() % uint64(n))), Logprob: logprob}
	for i := range min(item.Ask.Top, n) {
		a.Top = append(a.Top, engine.TokenLogprob{ID: nth(i), Logprob: logprob})
	}
	for _, id := range item.Ask.Labels {
		a.Labels = append(a.Labels, engine.TokenLogprob{ID: id, Logprob: logprob})
	}
	return a
}

func (p *nullPass) prompt(item *wire.RunItem) []engine.PromptScore {
	if !item.Ask.PromptLogprobs {
		return nil
	}
	scores := make([]engine.PromptScore, len(item.Tokens)-1)
	logprob := float32(-math.Log(float64(p.vocab)))
	for i := range scores {
		scores[i].Logprob = logprob
		for id := range min(item.Ask.PromptTop, p.vocab) {
			scores[i].Top = append(scores[i].Top, engine.TokenLogprob{ID: engine.TokenID(id), Logprob: logprob})
		}
	}
	return scores
}
