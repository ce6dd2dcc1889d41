package sampling

import (
	"math"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

func TestCheck(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for want, ask := range map[string]engine.Ask{
		"21 and 0 top logprobs": {Top: 21},
		"0 and -1 top logprobs": {PromptTop: -1},
		"temperature -1":        {Temperature: -1},
		"temperature NaN":       {Temperature: nan},
		"temperature +Inf":      {Temperature: inf},
		"top_p 1.5":             {TopP: 1.5},
		"top_p NaN":             {TopP: nan},
		"top_k -1":              {TopK: -1},
		"min_p 1.5":             {MinP: 1.5},
		"min_p NaN":             {MinP: nan},
		"ban of 0 tokens":       {Bans: []engine.Ban{{Before: 3}}},
		"before position -1":    {Bans: []engine.Ban{{Tokens: []engine.TokenID{1}, Before: -1}}},
		"token 12 is outside the vocabulary of 10": {Bans: []engine.Ban{{Tokens: []engine.TokenID{1, 12}}}},
		"token 10 is outside the vocabulary of 10": {Labels: []engine.TokenID{9, 10}},
		"token 11 is outside the vocabulary of 10": {Allowed: engine.NewTokenSet(11)},
		"token 4294967295 with a bias is outside":  {Bias: []engine.TokenBias{{ID: math.MaxUint32}}},
		"the bias of token 3 is not finite":        {Bias: []engine.TokenBias{{ID: 3, Bias: inf}}},
	} {
		if err := Check(&ask, 10); err == nil || err.Code != engine.CodeBadTokens || !strings.Contains(err.Message, want) {
			t.Errorf("%+v: error %v, want it to hold %q", ask, err, want)
		}
	}
	if err := Check(&engine.Ask{Top: 20, TopP: 1, Temperature: 2, Labels: []engine.TokenID{9}}, 10); err != nil {
		t.Error(err)
	}
}
