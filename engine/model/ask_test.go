package model

import (
	"math"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

func TestCheckAsk(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for want, ask := range map[string]engine.Ask{
		"21 and 0 top logprobs": {Top: 21},
		"0 and -1 top logprobs": {PromptTop: -1},
		"temperature -1":        {Temperature: -1},
		"temperature NaN":       {Temperature: nan},
		"temperature +Inf":      {Temperature: inf},
		"top_p 1.5":             {TopP: 1.5},
		"top_p NaN":             {TopP: nan},
		"token 10 is outside the vocabulary of 10": {Labels: []engine.TokenID{9, 10}},
		"token 11 is outside the vocabulary of 10": {Allowed: []engine.TokenID{11}},
		"token 4294967295 with a bias is outside":  {Bias: []engine.TokenBias{{ID: math.MaxUint32}}},
		"the bias of token 3 is not finite":        {Bias: []engine.TokenBias{{ID: 3, Bias: inf}}},
	} {
		if err := checkAsk(&ask, 10); err == nil || err.Code != engine.CodeBadTokens || !strings.Contains(err.Message, want) {
			t.Errorf("%+v: error %v, want it to hold %q", ask, err, want)
		}
	}
	if err := checkAsk(&engine.Ask{Top: 20, TopP: 1, Temperature: 2, Labels: []engine.TokenID{9}}, 10); err != nil {
		t.Error(err)
	}
}
