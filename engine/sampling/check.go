package sampling

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
)

// Check refuses an ask that cannot be answered.
func Check(a *engine.Ask, vocab int) *engine.Error {
	switch {
	case a.Top < 0 || a.Top > engine.MaxTop || a.PromptTop < 0 || a.PromptTop > engine.MaxTop:
		return engine.Errorf(engine.CodeBadTokens, "%d and %d top logprobs are asked for, the limit is %d", a.Top, a.PromptTop, engine.MaxTop)
	case !(a.Temperature >= 0) || math.IsInf(float64(a.Temperature), 1):
		return engine.Errorf(engine.CodeBadTokens, "temperature %g is not a number from 0 on", a.Temperature)
	case !(a.TopP >= 0 && a.TopP <= 1):
		return engine.Errorf(engine.CodeBadTokens, "top_p %g is outside 0..1", a.TopP)
	case a.TopK < 0:
		return engine.Errorf(engine.CodeBadTokens, "top_k %d is not a number from 0 on", a.TopK)
	case !(a.MinP >= 0 && a.MinP <= 1):
		return engine.Errorf(engine.CodeBadTokens, "min_p %g is outside 0..1", a.MinP)
	}
	return checkIDs(a, vocab)
}

func checkIDs(a *engine.Ask, vocab int) *engine.Error {
	lists := [][]engine.TokenID{a.Labels}
	if !a.Allowed.Empty() {
		lists = append(lists, []engine.TokenID{a.Allowed.Last()})
	}
	for _, b := range a.Bans {
		if len(b.Tokens) == 0 || b.Before < 0 {
			return engine.Errorf(engine.CodeBadTokens, "invalid ban of %d tokens before position %d: want at least 1 token, and a position of at least 0", len(b.Tokens), b.Before)
		}
		lists = append(lists, b.Tokens)
	}
	for _, list := range lists {
		for _, id := range list {
			if int64(id) >= int64(vocab) {
				return engine.Errorf(engine.CodeBadTokens, "token %d is outside the vocabulary of %d", id, vocab)
			}
		}
	}
	for _, b := range a.Bias {
		if int64(b.ID) >= int64(vocab) {
			return engine.Errorf(engine.CodeBadTokens, "token %d with a bias is outside the vocabulary of %d", b.ID, vocab)
		}
		if v := float64(b.Bias); math.IsNaN(v) || math.IsInf(v, 0) {
			return engine.Errorf(engine.CodeBadTokens, "the bias of token %d is not finite", b.ID)
		}
	}
	return nil
}
