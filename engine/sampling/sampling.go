// Package sampling answers what a job asks of a row of logits: the logprobs, and the token chosen.
package sampling

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
)

// Score reports on a token that stands in the prompt: its logprob and rank over the whole vocabulary,
// and the top likeliest tokens.
func Score(logits []float32, token engine.TokenID, top int) (engine.PromptScore, *engine.Error) {
	d, err := newDistribution(logits, nil)
	if err != nil {
		return engine.PromptScore{}, err
	}
	return engine.PromptScore{Logprob: d.logprob(int(token)), Rank: d.columnRank(int(token)), Top: d.logprobEntries(d.topColumns(top))}, nil
}

// SampleToken makes an answer out of logits over ids (ascending; the whole vocabulary if nil), which it
// overwrites. Ids are the tokens that the ask allows, or more of them. The job has got so many tokens so far, of which
// last are the last, as many at least as the ask recalls. A label that is not allowed has a logprob of minus infinity.
func SampleToken(logits []float32, ids []engine.TokenID, ask *engine.Ask, generated int, last []engine.TokenID) (*engine.Answer, *engine.Error) {
	biased := distribution{logits: logits, ids: ids}
	if ids == nil && !ask.Allowed.Empty() {
		biased.maskDisallowed(ask.Allowed)
	}
	for _, b := range ask.Bias {
		if c, ok := biased.columnOf(b.ID); ok {
			logits[c] += b.Bias
		}
	}
	d, err := newDistribution(logits, ids)
	if err != nil {
		return nil, err
	}
	likeliest := d.topColumns(max(1, ask.Top))
	answer := &engine.Answer{Top: d.logprobEntries(likeliest[:min(ask.Top, len(likeliest))]), Labels: d.labelLogprobs(ask.Labels)}
	if len(ask.Bans) > 0 {
		if err := d.applyBans(ask.Bans, generated, last); err != nil {
			return nil, err
		}
		likeliest = d.topColumns(1)
	}
	chosen := likeliest[0]
	if ask.Temperature > 0 {
		chosen = d.sampleColumn(ask, uniformDraw(ask.Seed, generated))
	}
	answer.Token, answer.Logprob = d.tokenID(chosen), d.logprob(chosen)
	return answer, nil
}

// maskDisallowed makes minus infinity of the logits, over the whole vocabulary, of tokens that are not allowed.
func (d *distribution) maskDisallowed(allowed engine.TokenSet) {
	never := float32(math.Inf(-1))
	words := allowed.Bits()
	if words == nil { // a few
		words = make([]uint32, allowed.Last()/32+1)
		for _, id := range allowed.IDs() {
			words[id/32] |= 1 << (id % 32)
		}
	}
	for i, from := 0, 0; from < len(d.logits); i, from = i+1, from+32 {
		columns := d.logits[from:min(from+32, len(d.logits))]
		if i >= len(words) {
			for c := range columns {
				columns[c] = never
			}
			continue
		}
		for w := ^words[i]; w != 0; w &= w - 1 {
			if c := bits.TrailingZeros32(w); c < len(columns) {
				columns[c] = never
			}
		}
	}
}

// labelLogprobs reports tokens in the order given.
func (d *distribution) labelLogprobs(ids []engine.TokenID) []engine.TokenLogprob {
	var list []engine.TokenLogprob
	for _, id := range ids {
		entry := engine.TokenLogprob{ID: id, Logprob: float32(math.Inf(-1))}
		if c, ok := d.columnOf(id); ok {
			entry = d.logprobEntry(c)
		}
		list = append(list, entry)
	}
	return list
}

// applyBans makes it impossible to choose what bans forbid after so many generated tokens, which end with last. Norm stays, so
// the logprobs of the others do.
func (d *distribution) applyBans(bans []engine.Ban, generated int, last []engine.TokenID) *engine.Error {
	for _, b := range bans {
		if !b.Applies(generated, last) {
			continue
		}
		if c, ok := d.columnOf(b.Tokens[len(b.Tokens)-1]); ok {
			d.logits[c] = float32(math.Inf(-1))
		}
	}
	d.peak = slices.Max(d.logits)
	if math.IsInf(float64(d.peak), -1) {
		return engine.Errorf(engine.CodeBadTokens, "bad_words and min_tokens forbid every token that may be chosen as token %d", generated)
	}
	return nil
}

// uniformDraw is in [0, 1), a function of its arguments alone.
func uniformDraw(seed uint64, draw int) float64 {
	return float64(rand.NewPCG(seed, uint64(draw)).Uint64()>>11) * 0x1p-53
}
