package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// scored is what an answer says of tokens, in the form of completions and chat.
type scored struct {
	Choices        []scoredChoice
	PromptLogprobs []any `json:"prompt_logprobs"` // of chat
}

type scoredChoice struct {
	Text     string
	Logprobs struct {
		Tokens        []string             `json:"tokens"`
		TokenLogprobs []*float64           `json:"token_logprobs"`
		TopLogprobs   []map[string]float64 `json:"top_logprobs"`
		Content       []any
	}
	PromptLogprobs []any `json:"prompt_logprobs"`
	Message        struct{ Content string }
}

// score asks, and joins the pieces of a stream.
func (p *program) score(t *testing.T, path, body string) (whole scored) {
	t.Helper()
	response, err := http.Post(p.base+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text := readAll(t, response)
	if response.StatusCode != 200 {
		t.Fatalf("%s %s: %d %s", path, body, response.StatusCode, text)
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		if err := json.Unmarshal([]byte(text), &whole); err != nil {
			t.Fatal(err)
		}
		return whole
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		data, _ := strings.CutPrefix(lines.Text(), "data: ")
		var piece scored
		if json.Unmarshal([]byte(data), &piece) == nil && len(piece.Choices) > 0 {
			whole.join(&piece)
		}
	}
	return whole
}

// join appends the first choice of other to that of s.
func (s *scored) join(other *scored) {
	if len(s.Choices) == 0 {
		*s = *other
		return
	}
	to, from := &s.Choices[0], &other.Choices[0]
	to.Text += from.Text
	to.Logprobs.Tokens = append(to.Logprobs.Tokens, from.Logprobs.Tokens...)
	to.Logprobs.TokenLogprobs = append(to.Logprobs.TokenLogprobs, from.Logprobs.TokenLogprobs...)
	to.Logprobs.TopLogprobs = append(to.Logprobs.TopLogprobs, from.Logprobs.TopLogprobs...)
}

// TestPromptLogprobsOfGeneration asks for the scores of a prompt and for several tokens after it at once,
// which gives what two requests give: one for the prompt, one for the tokens.
func TestPromptLogprobsOfGeneration(t *testing.T) {
	p := serve(t, nil)
	const prompt = `"prompt":"User profile: age 31. Interests: Sailing and Finance.\nPost about sailing: Best tide of the week\nWill the user like it? Answer Yes or No:",`
	const draw = `"temperature":0.7,"seed":3,"ignore_eos":true`
	t.Run("echo", func(t *testing.T) {
		whole := p.score(t, "/v1/completions", `{`+prompt+draw+`,"echo":true,"logprobs":2,"max_tokens":6}`)
		first := p.score(t, "/v1/completions", `{`+prompt+draw+`,"echo":true,"logprobs":2,"max_tokens":0}`)
		second := p.score(t, "/v1/completions", `{`+prompt+draw+`,"logprobs":2,"max_tokens":6}`)
		stream := p.score(t, "/v1/completions", `{`+prompt+draw+`,"echo":true,"logprobs":2,"max_tokens":6,"stream":true}`)
		if prompted, answered := len(first.Choices[0].Logprobs.Tokens), len(second.Choices[0].Logprobs.Tokens); prompted < 20 || answered != 6 {
			t.Fatalf("%d tokens of the prompt and %d generated ones", prompted, answered)
		}
		first.join(&second)
		if !reflect.DeepEqual(whole, first) {
			t.Errorf("at once %+v\nin halves %+v", whole, first)
		}
		if !reflect.DeepEqual(whole, stream) {
			t.Errorf("at once %+v\nas a stream %+v", whole, stream)
		}
	})
	t.Run("default max_tokens", func(t *testing.T) {
		if got := p.score(t, "/v1/completions", `{"prompt":"a b","echo":true,"logprobs":1}`); len(got.Choices[0].Logprobs.Tokens) < 3 {
			t.Errorf("tokens %q", got.Choices[0].Logprobs.Tokens)
		}
	})
	t.Run("prompt_logprobs", func(t *testing.T) {
		whole := p.score(t, "/v1/completions", `{`+prompt+draw+`,"prompt_logprobs":2,"logprobs":1,"max_tokens":6}`)
		first := p.score(t, "/v1/completions", `{`+prompt+draw+`,"prompt_logprobs":2,"max_tokens":0}`)
		second := p.score(t, "/v1/completions", `{`+prompt+draw+`,"logprobs":1,"max_tokens":6}`)
		if got, want := whole.Choices[0].PromptLogprobs, first.Choices[0].PromptLogprobs; len(got) < 20 || !reflect.DeepEqual(got, want) {
			t.Errorf("the prompt at once %v\nalone %v", got, want)
		}
		whole.Choices[0].PromptLogprobs = nil
		if !reflect.DeepEqual(whole, second) {
			t.Errorf("the answer at once %+v\nalone %+v", whole, second)
		}
	})
	t.Run("chat", func(t *testing.T) {
		const chat = `"messages":[{"role":"user","content":"Does Ann like the post about sailing?"}],"logprobs":true,"top_logprobs":2,`
		whole := p.score(t, "/v1/chat/completions", `{`+chat+draw+`,"prompt_logprobs":2,"max_tokens":6}`)
		first := p.score(t, "/v1/chat/completions", `{`+chat+draw+`,"prompt_logprobs":2,"max_tokens":1}`)
		second := p.score(t, "/v1/chat/completions", `{`+chat+draw+`,"max_tokens":6}`)
		if len(whole.PromptLogprobs) < 10 || !reflect.DeepEqual(whole.PromptLogprobs, first.PromptLogprobs) {
			t.Errorf("the prompt at once %v\nalone %v", whole.PromptLogprobs, first.PromptLogprobs)
		}
		if len(whole.Choices[0].Logprobs.Content) != 6 || !reflect.DeepEqual(whole.Choices, second.Choices) {
			t.Errorf("the answer at once %+v\nalone %+v", whole.Choices, second.Choices)
		}
	})
	t.Run("several answers", func(t *testing.T) {
		got := p.score(t, "/v1/completions", `{`+prompt+`"echo":true,"logprobs":1,"max_tokens":4,"n":3,"temperature":0,"ignore_eos":true}`)
		if len(got.Choices) != 3 || slices.ContainsFunc(got.Choices[1:], func(c scoredChoice) bool {
			return !reflect.DeepEqual(c, got.Choices[0])
		}) {
			t.Errorf("%+v", got)
		}
	})
}

// streams are generating requests that a test holds open.
type streams struct {
	tokens []atomic.Int64
	wg     sync.WaitGroup
}

// stream opens n streams of 4,000 tokens, and waits until all have begun. They end with the test's server.
func (p *program) stream(n int) *streams {
	p.Helper()
	s := &streams{tokens: make([]atomic.Int64, n)}
	ctx, stop := context.WithCancel(p.Context())
	p.Cleanup(func() {
		stop()
		s.wg.Wait()
	})
	for i := range n {
		body := fmt.Sprintf(`{"prompt":"Stream %d of many","max_tokens":4000,"stream":true,"allowed_token_ids":[300,301],"user":"streams"}`, i)
		s.wg.Go(func() {
			request, _ := http.NewRequestWithContext(ctx, "POST", p.base+"/v1/completions", strings.NewReader(body))
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				p.Errorf("stream %d: %v", i, err)
				return
			}
			defer response.Body.Close()
			for lines := bufio.NewScanner(response.Body); lines.Scan(); {
				if strings.Contains(lines.Text(), `"text"`) {
					s.tokens[i].Add(1)
				}
			}
		})
	}
	for i := range s.tokens {
		for s.tokens[i].Load() == 0 && !p.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	return s
}

// counts are the tokens that each stream has got.
func (s *streams) counts() []int64 {
	n := make([]int64, len(s.tokens))
	for i := range n {
		n[i] = s.tokens[i].Load()
	}
	return n
}

// TestScoringBesideStreams asks for scores of prompts of 1 to 100 tokens while 20 streams generate. None waits
// for more than a few passes, and the streams share what is left.
func TestScoringBesideStreams(t *testing.T) {
	for _, args := range [][]string{
		{"--scheduling-policy", "srjf-calibrated"},
		{"--scheduling-policy", "srpt"},
		{"--scheduling-policy", "fcfs"},
		{"--scheduling-policy", "hrrn", "--user-fairness"},
	} {
		t.Run(strings.Join(args[1:], ""), func(t *testing.T) {
			p := serve(t, nil, append(args, "--kv-cache-memory-bytes", "256MiB")...)
			s := p.stream(20)
			before, start := s.counts(), time.Now()
			var slowest time.Duration
			const prompts = 40
			for i := range prompts {
				ids := make([]string, 1+i*99/(prompts-1))
				for k := range ids {
					ids[k] = strconv.Itoa(300 + (i*31+k*7)%1000)
				}
				asked := time.Now()
				p.score(t, "/v1/completions", `{"prompt":[`+strings.Join(ids, ",")+`],"max_tokens":1,"temperature":0,"logprobs":1}`)
				slowest = max(slowest, time.Since(asked))
			}
			took := time.Since(start)
			after := s.counts()
			least, most := int64(math.MaxInt64), int64(0)
			for i := range after {
				least, most = min(least, after[i]-before[i]), max(most, after[i]-before[i])
			}
			if most+before[0] > 3900 {
				t.Fatal("the streams ended before the prompts were answered")
			}
			if pass := took / time.Duration(max(most, 1)); slowest > 20*pass && slowest > time.Second {
				t.Errorf("the slowest prompt took %v, a pass of the streams %v", slowest, pass)
			}
			if least < prompts/2 || least < most*2/3 {
				t.Errorf("beside %d prompts the streams got %d to %d tokens", prompts, least, most)
			}
			t.Logf("%d prompts in %v, the slowest in %v; the streams got %d to %d tokens", prompts, took, slowest, least, most)
		})
	}
}
