package field

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// of is a request to a model, with these fields.
func of(model, fields string) string { return `{"model":"` + model + `",` + fields + `}` }

const (
	completions = "/v1/completions"
	chat        = "/v1/chat/completions"
	hi          = `"messages":[{"role":"user","content":"hi"}],`
)

func TestPromptsThatWereScored(t *testing.T) {
	run(t, []row{
		{
			saw: "echo with max_tokens 0 and logprobs crashed the server", thread: "vllm-project/vllm#6521", path: completions,
			body: of(generator, `"prompt":"Your answer: Yes","max_tokens":0,"echo":true,"logprobs":1,"temperature":0`), status: 200,
			want: map[string]string{
				"choices.0.text": `"Your answer: Yes"`, "choices.0.logprobs.token_logprobs.0": `null`, "choices.0.logprobs.top_logprobs.0": `null`,
				"choices.0.finish_reason": `"length"`, "usage.completion_tokens": `0`,
			},
			check: func(t *testing.T, a *answer) {
				n := a.number("usage.prompt_tokens")
				for _, list := range []string{"tokens", "token_logprobs", "top_logprobs", "text_offset"} {
					if got := a.number("choices.0.logprobs." + list + ".#"); got != n {
						t.Errorf("%v %s, want %v", got, list, n)
					}
				}
				for i, l := range a.list("choices.0.logprobs.token_logprobs") {
					if i > 0 && !(l <= 0) {
						t.Errorf("log-probability %d is %v", i, l)
					}
				}
			},
		},
		{
			saw: "echo with max_tokens 0 and no logprobs gave 500", thread: "vllm-project/vllm#2995", path: completions,
			body: of(generator, `"prompt":"Hello there","max_tokens":0,"echo":true`), status: 200,
			want: map[string]string{"choices.0.text": `"Hello there"`, "choices.0.logprobs": `null`, "usage.completion_tokens": `0`},
		},
		{
			saw: "echo of a prompt of token ids gave 500", thread: "vllm-project/vllm#2706", path: completions,
			body: of(generator, `"prompt":[340,322,37],"max_tokens":0,"echo":true`), status: 200,
			want: map[string]string{"choices.0.text": `"Is it?"`, "usage.prompt_tokens": `3`},
		},
		{
			saw: "loglikelihood of an evaluation harness, ten alternatives a token, gave 500", thread: "EleutherAI/lm-evaluation-harness#1411", path: completions,
			body: of(generator, `"prompt":["Is it? Yes","No"],"echo":true,"max_tokens":0,"temperature":0.0,"logprobs":10,"seed":1234`), status: 200,
			want: map[string]string{"choices.#": `2`, "choices.0.index": `0`, "choices.1.index": `1`, "choices.0.text": `"Is it? Yes"`, "choices.1.text": `"No"`},
			check: func(t *testing.T, a *answer) {
				if n := a.number("choices.0.logprobs.top_logprobs.1.#"); n != 10 && n != 11 {
					t.Errorf("%v alternatives", n)
				}
			},
		},
		{
			saw: "echoed logprobs with top_k 1 held -inf, and the answer was 500", thread: "vllm-project/vllm#10234", path: completions,
			body: of(generator, `"prompt":"correct horse battery staple","echo":true,"logprobs":1,"temperature":1,"top_k":1,"max_tokens":2`), status: 200,
			want:  map[string]string{"choices.0.logprobs.token_logprobs.0": `null`},
			check: finite("choices.0.logprobs.token_logprobs"),
		},
		{
			saw: "five logprobs at temperature 0.01 were out of JSON's range", thread: "sgl-project/sglang#5984", path: completions,
			body: of(generator, `"prompt":"Is it? ","stream":false,"temperature":0.01,"top_p":0.3,"max_tokens":5,"logprobs":5,"ignore_eos":true`), status: 200,
			want:  map[string]string{"choices.0.logprobs.token_logprobs.#": `5`},
			check: finite("choices.0.logprobs.token_logprobs"),
		},
		{
			saw: "a guided choice's top_logprobs were -inf, and the answer was 500", thread: "vllm-project/vllm#4149", path: chat,
			body: of(generator, `"messages":[{"role":"user","content":"Is this positive or negative sentiment? This is so bad!"}],"logprobs":true,"top_logprobs":2,"guided_choice":["positive","negative"]`), status: 200,
			want: map[string]string{"choices.0.logprobs.content.0.top_logprobs.#": `2`},
			check: func(t *testing.T, a *answer) {
				if c := a.word("choices.0.message.content"); c != "positive" && c != "negative" {
					t.Errorf("content %q", c)
				}
				sum := math.Exp(a.number("choices.0.logprobs.content.0.top_logprobs.0.logprob")) + math.Exp(a.number("choices.0.logprobs.content.0.top_logprobs.1.logprob"))
				if !near(sum, 1) {
					t.Errorf("the two probabilities add up to %v", sum)
				}
			},
		},
		{
			saw: "prompt_logprobs silently came back as [null]", thread: "vllm-project/vllm-metal#680", path: completions,
			body: of(generator, `"prompt":"The three most important properties of a distributed cache are","max_tokens":1,"prompt_logprobs":1`), status: 200,
			want: map[string]string{"choices.0.prompt_logprobs.0": `null`},
			check: func(t *testing.T, a *answer) {
				if got, want := a.number("choices.0.prompt_logprobs.#"), a.number("usage.prompt_tokens"); got != want {
					t.Errorf("%v entries for %v tokens", got, want)
				}
				for i := 1; i < int(a.number("usage.prompt_tokens")); i++ {
					if n := a.number(fmt.Sprintf("choices.0.prompt_logprobs.%d.#", i)); n != 1 && n != 2 {
						t.Errorf("%v alternatives for token %d", n, i)
					}
				}
			},
		},
		{
			saw: "prompt_logprobs 10 broke where 9 worked", thread: "vllm-project/vllm#16836", path: completions,
			body: of(generator, `"prompt":"In contrast, the rule as","max_tokens":1,"prompt_logprobs":10`), status: 200,
			want: map[string]string{"choices.0.prompt_logprobs.0": `null`},
			check: func(t *testing.T, a *answer) {
				if n := a.number("choices.0.prompt_logprobs.1.#"); n != 10 && n != 11 {
					t.Errorf("%v alternatives", n)
				}
			},
		},
		{
			saw: "prompt_logprobs with max_tokens 0 was refused", thread: "vllm-project/vllm#9336", path: completions,
			body: of(generator, `"prompt":"Is it?","max_tokens":0,"prompt_logprobs":0`), status: 200,
			want: map[string]string{"choices.0.text": `""`, "usage.completion_tokens": `0`, "choices.0.prompt_logprobs.#": `4`, "choices.0.prompt_logprobs.1.#": `1`},
		},
		{
			saw: "a stream with echo and logprobs broke off", thread: "vllm-project/vllm#2703", path: completions,
			body: of(generator, `"prompt":"Warsaw is","top_p":1.0,"max_tokens":3,"temperature":1.0,"logprobs":1,"echo":true,"stream":true,"ignore_eos":true`), status: 200,
			check: func(t *testing.T, a *answer) {
				text, tokens := "", 0
				for _, e := range a.events(t) {
					text += e.word("choices.0.text")
					tokens += len(e.list("choices.0.logprobs.token_logprobs"))
				}
				plain := ask(t, "/tokenize", of(generator, `"prompt":"Warsaw is"`))
				if want := int(plain.number("count")) + 3; !strings.HasPrefix(text, "Warsaw is") || tokens != want {
					t.Errorf("%q and %d log-probabilities, want %d", text, tokens, want)
				}
			},
		},
		{
			saw: "echoed tokens and their offsets were not those of the text", thread: "vllm-project/vllm#5334", path: completions,
			body: of(generator, `"prompt":"\n1. Carol has 20","max_tokens":3,"temperature":0,"logprobs":1,"echo":true`), status: 200,
			check: func(t *testing.T, a *answer) {
				text, offsets := a.word("choices.0.text"), a.list("choices.0.logprobs.text_offset")
				if len(offsets) == 0 {
					t.Error("no offsets")
				}
				for i, o := range offsets {
					token := a.word(fmt.Sprintf("choices.0.logprobs.tokens.%d", i))
					if i > 0 && token != "<|end|>" && !strings.HasPrefix(text[min(int(o), len(text)):], token) {
						t.Errorf("token %d, %q, is not at %v of %q", i, token, o, text)
					}
				}
			},
		},
	})
}

// finite is a check that numbers from the second on are numbers.
func finite(path string) func(*testing.T, *answer) {
	return func(t *testing.T, a *answer) {
		list := a.list(path)
		for i, v := range list[min(1, len(list)):] {
			if math.IsNaN(v) {
				t.Errorf("%s.%d is no number", path, i+1)
			}
		}
	}
}

// events are those of a stream, which ends as it should.
func (a *answer) events(t *testing.T) (events []*answer) {
	t.Helper()
	body, done := strings.CutSuffix(strings.TrimSpace(a.text), "data: [DONE]")
	if !done || !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("a stream of %s that ends with %q", a.header.Get("Content-Type"), a.text[max(0, len(a.text)-40):])
	}
	for event := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		e := &answer{text: event}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &e.value); err != nil {
			t.Fatalf("%q: %v", event, err)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		t.Fatal("a stream without events")
	}
	return events
}

func TestPromptsThatWereOdd(t *testing.T) {
	salted := func(salt string) string { // another in each run
		return of(generator, `"prompt":"`+strings.Repeat("one two three ", 60)+`","max_tokens":1,"cache_salt":"`+salt+`"`)
	}
	salt := rand.Text()
	refused := func(fields, param string, words ...string) row {
		return row{path: completions, body: of(generator, fields), status: 400, want: map[string]string{"error.param": `"` + param + `"`}, check: says(words...)}
	}
	named := func(saw, thread string, r row) row {
		r.saw, r.thread = saw, thread
		return r
	}
	run(t, []row{
		named("a token id near the end of int64 was an error inside the engine", "vllm-project/vllm#26797", refused(`"prompt":[5279552648203111001],"max_tokens":1`, "prompt", "5279552648203111001")),
		named("a token id above the vocabulary was an index out of bounds in the model", "vllm-project/vllm#9634", refused(`"prompt":[0,0,32000,32001],"max_tokens":1`, "prompt", "32000")),
		named("a negative token id passed the check", "vllm-project/vllm#51795", refused(`"prompt":[-1],"max_tokens":1`, "prompt", "-1")),
		named("logit_bias of an id above the vocabulary crashed the engine", "vllm-project/vllm#16529", refused(`"prompt":"hi","max_tokens":1,"logit_bias":{"191222":-100,"99":5}`, "logit_bias", "191222")),
		named("a stop token id above the vocabulary crashed the engine", "vllm-project/vllm#54195", refused(`"prompt":"hi","stop_token_ids":[151645],"max_tokens":1`, "stop_token_ids", "151645")),
		named("null for a prompt was a server error", several, refused(`"prompt":null,"max_tokens":1`, "prompt")),
		named("an empty list of prompts was answered with nothing", several, refused(`"prompt":[],"max_tokens":1`, "prompt")),
		named("negative max_tokens generated without an end", several, refused(`"prompt":"hi","max_tokens":-1`, "max_tokens")),
		named("a broken number for max_tokens was rounded", several, refused(`"prompt":"hi","max_tokens":1.5`, "max_tokens")),
		named("n 0 answered with no choices", several, refused(`"prompt":"hi","max_tokens":1,"n":0`, "n")),
		named("best_of below n was a server error", several, refused(`"prompt":"hi","max_tokens":1,"n":3,"best_of":2`, "best_of")),
		named("a negative temperature was taken", several, refused(`"prompt":"hi","max_tokens":1,"temperature":-1`, "temperature")),
		named("top_p above 1 was taken", several, refused(`"prompt":"hi","max_tokens":1,"top_p":1.5`, "top_p")),
		named("more logprobs than the server gives were a server error", several, refused(`"prompt":"hi","max_tokens":1,"logprobs":100000`, "logprobs")),
		named("stream_options without a stream were ignored", several, refused(`"prompt":"hi","max_tokens":1,"stream_options":{"include_usage":true}`, "stream_options")),
		named("a prompt of numbers and texts crashed the tokenizer", several, refused(`"prompt":[1,"a"],"max_tokens":1`, "prompt")),
		named("a seed above int64 was told to be no integer", several, refused(`"prompt":"hi","max_tokens":1,"seed":18446744073709551615`, "seed", "int64")),
		named("a temperature above every float was a server error", several, refused(`"prompt":"hi","max_tokens":1,"temperature":1e400`, "temperature", "1e400")),
		named("top_p 0 divided by zero", several, refused(`"prompt":"hi","max_tokens":1,"top_p":0`, "top_p")),
		named("an empty stop text ended every answer at once", several, refused(`"prompt":"hi","max_tokens":1,"stop":""`, "stop")),
		named("logprobs true, which is of chats, was read as 1", several, refused(`"prompt":"hi","max_tokens":1,"logprobs":true`, "logprobs")),
		named("logprobs -1 were a server error", several, refused(`"prompt":"hi","max_tokens":1,"logprobs":-1`, "logprobs")),
		named("a million answers to a prompt took the server's memory", several, refused(`"prompt":"hi","max_tokens":1,"n":1000000`, "n", "1000000")),
		named("min_tokens above max_tokens never ended", several, refused(`"prompt":"hi","max_tokens":1,"min_tokens":5`, "min_tokens")),
		named("no allowed tokens sampled from nothing", several, refused(`"prompt":"hi","max_tokens":1,"allowed_token_ids":[]`, "allowed_token_ids")),
		named("a list of token ids that is empty crashed the scheduler", several, refused(`"prompt":[[340],[]],"max_tokens":1`, "prompt", "prompt 1")),
		named("a network asked for text was a server error", several, row{path: completions, body: of(adder, `"prompt":"hi"`), status: 400, check: says(adder, "tensors")}),
		{
			saw: "an empty prompt with echo and logprobs was a server error", thread: several, path: completions,
			body: of(generator, `"prompt":"","max_tokens":0,"echo":true,"logprobs":1`), status: 200,
			want: map[string]string{"choices.0.text": `""`, "choices.0.logprobs.token_logprobs": `[null]`, "usage.prompt_tokens": `1`},
		},
		{
			saw: "answers of several prompts, several each, came in no order", thread: several, path: completions,
			body: of(generator, `"prompt":["Is it?","No"],"max_tokens":0,"echo":true,"n":2`), status: 200,
			want: map[string]string{"choices.0.text": `"Is it?"`, "choices.1.text": `"Is it?"`, "choices.2.text": `"No"`, "choices.3.text": `"No"`, "choices.3.index": `3`},
		},
		{
			saw: "the only token allowed had a probability below 1", thread: several, path: completions,
			body: of(generator, `"prompt":"hi","max_tokens":1,"allowed_token_ids":[7],"logprobs":2`), status: 200,
			want: map[string]string{"choices.0.logprobs.token_logprobs": `[0]`, "choices.0.logprobs.top_logprobs.0.#": `1`},
		},
		{
			saw: "no max_tokens crashed the engine", thread: "vllm-project/vllm#6707", path: completions,
			body: of(generator, `"prompt":"Is it? ","temperature":0`), status: 200, want: map[string]string{"choices.#": `1`},
		},
		{
			saw: "an unpaired surrogate in a prompt was a server error", thread: several, path: "/tokenize",
			body: of(generator, `"prompt":"a\ud800b"`), status: 200,
			check: func(t *testing.T, a *answer) {
				if b := ask(t, "/tokenize", of(generator, `"prompt":"a\ufffdb"`)); b.number("count") != a.number("count") {
					t.Error("it is not read as U+FFFD")
				}
			},
		},
		{
			saw: "a pair of surrogates came back as six characters", thread: several, path: completions,
			body: of(generator, `"prompt":"\ud83d\ude42 é 漢","max_tokens":0,"echo":true`), status: 200, want: map[string]string{"choices.0.text": `"🙂 é 漢"`},
		},
		{
			saw: "a zero character ended the prompt", thread: several, path: completions,
			body: of(generator, `"prompt":"a\u0000b","max_tokens":0,"echo":true`), status: 200, want: map[string]string{"choices.0.text": `"a\u0000b"`},
		},
		{
			saw: "a stream cut characters of several tokens into U+FFFD", thread: several, path: completions,
			body: of(generator, `"prompt":"hi","max_tokens":40,"guided_choice":["🙂🙂漢字"],"stream":true`), status: 200,
			check: func(t *testing.T, a *answer) {
				text := ""
				for _, e := range a.events(t) {
					text += e.word("choices.0.text")
				}
				if text != "🙂🙂漢字" || !utf8.ValidString(text) {
					t.Errorf("%q", text)
				}
			},
		},
		{
			saw: "the same seed gave other texts", thread: several, path: completions,
			body: of(generator, `"prompt":"Is it? ","max_tokens":6,"seed":7,"temperature":1,"n":3`), status: 200,
			want: map[string]string{"choices.#": `3`, "choices.2.index": `2`},
			check: func(t *testing.T, a *answer) {
				b := ask(t, completions, of(generator, `"prompt":"Is it? ","max_tokens":6,"seed":7,"temperature":1,"n":3`))
				for _, path := range []string{"choices.0.text", "choices.1.text", "choices.2.text"} {
					if a.word(path) != b.word(path) {
						t.Errorf("%s: %q and %q", path, a.word(path), b.word(path))
					}
				}
			},
		},
		{
			saw: "the stop text was in the answer", thread: several, path: completions,
			body: of(generator, `"prompt":"hi","guided_choice":["one STOP two"],"stop":["STOP"],"max_tokens":20`), status: 200,
			want: map[string]string{"choices.0.text": `"one "`, "choices.0.finish_reason": `"stop"`, "choices.0.stop_reason": `"STOP"`},
		},
		{
			saw: "a stop text over two tokens leaked into the stream", thread: several, path: completions,
			body: of(generator, `"prompt":"hi","guided_choice":["one STOP two"],"stop":"P t","max_tokens":20,"stream":true`), status: 200,
			check: func(t *testing.T, a *answer) {
				text := ""
				for _, e := range a.events(t) {
					text += e.word("choices.0.text")
				}
				if text != "one STO" {
					t.Errorf("%q", text)
				}
			},
		},
		{
			saw: "a streamed usage was in every event or in none", thread: several, path: completions,
			body: of(generator, `"prompt":"hi","max_tokens":2,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true`), status: 200,
			check: func(t *testing.T, a *answer) {
				events := a.events(t)
				last := events[len(events)-1]
				if last.number("choices.#") != 0 || last.number("usage.completion_tokens") != 2 {
					t.Errorf("the last event is %s", last.text)
				}
				for _, e := range events[:len(events)-1] {
					if e.at("usage") != nil {
						t.Errorf("an event before has usage: %s", e.text)
					}
				}
			},
		},
		{
			saw: "a stream without stream_options had a usage event, which clients fell over", thread: several, path: chat,
			body: of(generator, hi+`"max_tokens":1,"stream":true`), status: 200,
			check: func(t *testing.T, a *answer) {
				for _, e := range a.events(t) {
					if e.number("choices.#") != 1 {
						t.Errorf("an event without a choice: %s", e.text)
					}
				}
			},
		},
		{
			saw: "cached tokens were more than the prompt's, or another salt's", thread: several, path: completions,
			body: salted(salt), status: 200,
			want: map[string]string{"usage.prompt_tokens_details.cached_tokens": `0`},
			check: func(t *testing.T, a *answer) {
				same, other := ask(t, completions, salted(salt)), ask(t, completions, salted(salt+"b"))
				if c, n := same.number("usage.prompt_tokens_details.cached_tokens"), same.number("usage.prompt_tokens"); !(c > 0 && c < n) {
					t.Errorf("%v of %v tokens are cached the second time", c, n)
				}
				if c := other.number("usage.prompt_tokens_details.cached_tokens"); c != 0 {
					t.Errorf("%v tokens of another salt are cached", c)
				}
			},
		},
		{
			saw: "a prompt longer than the context was cut without a word", thread: several, path: completions,
			body: of(generator, `"prompt":"`+strings.Repeat("one two three four ", 6000)+`","max_tokens":1`), status: 400,
			want: map[string]string{"error.code": `"context_length_exceeded"`}, check: says("16384"),
		},
	})
}
