package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// formed is an answer whose text must have a form.
type formed struct {
	Choices []struct {
		Text         string
		Message      struct{ Content string }
		FinishReason string `json:"finish_reason"`
		StopReason   any    `json:"stop_reason"`
		Logprobs     struct {
			Tokens        []string
			TokenLogprobs []float64            `json:"token_logprobs"`
			TopLogprobs   []map[string]float64 `json:"top_logprobs"`
		}
	}
	Usage struct {
		Completion int `json:"completion_tokens"`
		Prompt     int `json:"prompt_tokens"`
	}
	Error struct{ Message, Param string }
}

// formed asks for a completion with these fields.
func (p *program) formed(t *testing.T, fields string) (f formed) {
	t.Helper()
	response, err := http.Post(p.base+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"Will the user like it? Answer:",`+fields+`}`))
	if err != nil {
		t.Fatal(err)
	}
	text := readAll(t, response)
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return f
}

func (f *formed) texts() (all []string) {
	for _, c := range f.Choices {
		all = append(all, c.Text)
	}
	return all
}

// TestStructuredOutputs asks the demo model for answers of each kind of form.
func TestStructuredOutputs(t *testing.T) {
	p := serve(t, nil)
	t.Run("choice", func(t *testing.T) {
		got := p.formed(t, `"guided_choice":["positive","negative","neither","not"],"n":40,"seed":1,"temperature":2,"max_tokens":20`)
		seen := map[string]int{}
		for _, c := range got.Choices {
			seen[c.Text]++
			if c.FinishReason != "stop" || c.StopReason != nil {
				t.Errorf("%+v", c)
			}
		}
		if seen["positive"] == 0 || len(seen) < 3 || seen["positive"]+seen["negative"]+seen["neither"]+seen["not"] != 40 {
			t.Errorf("answers %v", seen)
		}
	})
	t.Run("choice by its first token", func(t *testing.T) {
		form := p.formed(t, `"guided_choice":["Yes indeed","No way"],"temperature":0,"logprobs":2,"max_tokens":5`)
		c := form.Choices[0]
		var sum float64
		for _, logprob := range c.Logprobs.TopLogprobs[0] {
			sum += math.Exp(logprob)
		}
		if len(c.Logprobs.TopLogprobs[0]) != 2 || sum < 0.9999 || sum > 1.0001 || !slices.Contains([]string{"Yes indeed", "No way"}, c.Text) {
			t.Errorf("%+v: the choices have %v of the probability", form, sum)
		}
		for _, logprob := range c.Logprobs.TokenLogprobs[1:] {
			if logprob != 0 {
				t.Errorf("a token that must follow has %v", logprob)
			}
		}
		for i, top := range c.Logprobs.TopLogprobs[1:] {
			if logprob, found := top[c.Logprobs.Tokens[1+i]]; len(top) != 1 || !found || logprob != 0 {
				t.Errorf("beside a token that must follow: %v", top)
			}
		}
	})
	t.Run("regex", func(t *testing.T) {
		want := regexp.MustCompile(`^[a-c]{3}-[0-9]{2}$`)
		got := p.formed(t, `"structured_outputs":{"regex":"^[a-c]{3}-[0-9]{2}$"},"n":8,"seed":4,"max_tokens":30`)
		for _, text := range got.texts() {
			if !want.MatchString(text) {
				t.Errorf("%q", text)
			}
		}
		if len(slices.Compact(slices.Sorted(slices.Values(got.texts())))) < 3 {
			t.Errorf("drawn texts %q", got.texts())
		}
		if again := p.formed(t, `"structured_outputs":{"regex":"^[a-c]{3}-[0-9]{2}$"},"n":8,"seed":4,"max_tokens":30`); !reflect.DeepEqual(again.texts(), got.texts()) {
			t.Errorf("a seed gives %q and %q", got.texts(), again.texts())
		}
	})
	t.Run("grammar", func(t *testing.T) {
		got := p.formed(t, `"guided_grammar":"start: \"(\" (\"a\" | \"bc\" | start) \")\"","n":8,"seed":5,"max_tokens":100`)
		for i, text := range got.texts() {
			inner := strings.Trim(text, "()")
			if got.Choices[i].FinishReason == "stop" && (inner != "a" && inner != "bc" || strings.Count(text, "(") != strings.Count(text, ")")) {
				t.Errorf("%q", text)
			}
		}
	})
	t.Run("JSON schema", func(t *testing.T) {
		const schema = `{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":120},"ok":{"type":"boolean"},"kind":{"enum":["a","b\"c"]}},"required":["name","age","ok","kind"],"additionalProperties":false}`
		judge := judgeOf(t, schema)
		for _, form := range []string{`"guided_json":` + schema, `"structured_outputs":{"json":` + schema + `,"disable_any_whitespace":true}`, `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":` + schema + `}}`} {
			got := p.formed(t, form+`,"n":6,"seed":7,"temperature":1.5,"max_tokens":200`)
			for _, text := range got.texts() {
				var v any
				if err := json.Unmarshal([]byte(text), &v); err != nil {
					t.Errorf("%q: %v", text, err)
				} else if err := judge.Validate(v); err != nil {
					t.Errorf("%q: %v", text, err)
				}
			}
		}
	})
	t.Run("chat", func(t *testing.T) {
		got := p.score(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"like it?"}],"guided_choice":["maybe not","may"],"max_tokens":9,"logprobs":true,"top_logprobs":1}`)
		for _, token := range got.Choices[0].Logprobs.Content {
			if top := token.(map[string]any)["top_logprobs"]; len(top.([]any)) != 1 {
				t.Errorf("%v", token)
			}
		}
		if text := got.Choices[0].Message.Content; text != "maybe not" && text != "may" {
			t.Errorf("%q", text)
		}
	})
	t.Run("stream", func(t *testing.T) {
		const body = `{"prompt":"like it?","guided_regex":"[0-9]{3}(-[a-f]{4}){2}","seed":11,"logprobs":3,"max_tokens":40`
		whole, stream := p.score(t, "/v1/completions", body+`}`), p.score(t, "/v1/completions", body+`,"stream":true}`)
		if !reflect.DeepEqual(whole, stream) || len(whole.Choices[0].Text) != 13 {
			t.Errorf("whole %+v\nas a stream %+v", whole, stream)
		}
	})
	t.Run("prompt_logprobs", func(t *testing.T) {
		const prompt = `{"prompt":"like it? Answer Yes or No, if you please:","logprobs":1,"prompt_logprobs":1,`
		with := p.score(t, "/v1/completions", prompt+`"guided_regex":"certainly[0-9]","max_tokens":9}`)
		without := p.score(t, "/v1/completions", prompt+`"max_tokens":1}`)
		if got, want := with.Choices[0].PromptLogprobs, without.Choices[0].PromptLogprobs; len(want) < 5 || !reflect.DeepEqual(got, want) {
			t.Errorf("the prompt's are %v, without a form %v", got, want)
		}
	})
	t.Run("echo", func(t *testing.T) {
		got := p.formed(t, `"echo":true,"guided_choice":["certainly"],"logprobs":0`)
		if c := got.Choices[0]; c.Text != "Will the user like it? Answer:certainly" || !strings.HasSuffix(strings.Join(c.Logprobs.Tokens, ""), c.Text) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("ends", func(t *testing.T) {
		const long = `"guided_choice":["a very long answer","another long answer"],"temperature":0`
		all := p.formed(t, long+`,"max_tokens":50`)
		n := all.Usage.Completion
		if c := all.Choices[0]; c.FinishReason != "stop" || n < 5 {
			t.Fatalf("%+v", all)
		}
		for most := 1; most <= n+1; most++ {
			got := p.formed(t, fmt.Sprintf(`%s,"max_tokens":%d`, long, most))
			want := "length"
			if most >= n {
				want = "stop"
			}
			if c := got.Choices[0]; c.FinishReason != want || !strings.HasPrefix(all.Choices[0].Text, c.Text) || got.Usage.Completion != min(most, n) {
				t.Errorf("max_tokens %d: %+v of %+v", most, got, all)
			}
		}
		if c := p.formed(t, long+`,"max_tokens":50,"stop":["ng a"]`).Choices[0]; c.StopReason != "ng a" || !strings.HasSuffix(c.Text, "lo") {
			t.Errorf("at a stop string: %+v", c)
		}
		if got := p.formed(t, `"guided_regex":"[ab]*","min_tokens":6,"max_tokens":60,"seed":2,"n":5`); slices.ContainsFunc(got.texts(), func(s string) bool { return len(s) < 6 }) {
			t.Errorf("min_tokens: %q", got.texts())
		}
		if got := p.formed(t, `"guided_regex":"[ab]{0,60}","temperature":50,"max_tokens":60,"seed":2,"n":8`); !slices.ContainsFunc(got.texts(), func(s string) bool { return len(s) < 60 }) {
			t.Errorf("no end-of-text token ends one of %q", got.texts())
		}
		if got := p.formed(t, `"guided_choice":["ab","ac","b"],"bad_words":["b"],"n":5,"max_tokens":9`); slices.ContainsFunc(got.texts(), func(s string) bool { return s == "b" }) {
			t.Errorf("bad_words: %q", got.texts())
		}
	})
	t.Run("greedy", func(t *testing.T) {
		got := p.formed(t, `"guided_regex":"[a-f]{6}","temperature":0,"n":3,"max_tokens":20`)
		if all := got.texts(); len(all) != 3 || len(all[0]) != 6 || all[0] != all[1] || all[1] != all[2] {
			t.Errorf("%q", all)
		}
	})
	t.Run("errors", func(t *testing.T) {
		for _, c := range []struct{ fields, param, says string }{
			{`"guided_json":{"type":"objekt"}`, "guided_json", "objekt"},
			{`"structured_outputs":{"regex":"(ab"}`, "structured_outputs.regex", "unclosed group"},
			{`"guided_grammar":"start: foo"`, "guided_grammar", `unknown name: \"foo\"`},
			{`"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"#"}}}`, "response_format.json_schema.schema", "no text has this form"},
			{`"guided_regex":"()"`, "guided_regex", "the empty text"},
			{`"guided_choice":["a","b<|end_of_text|>"]`, "guided_choice", "choice 1"},
			{`"guided_json":{"type":"array","items":` + strings.Repeat(`{"items":`, 200) + `{}` + strings.Repeat("}", 200) + `}`, "guided_json", "recursion limit"},
		} {
			got := p.formed(t, c.fields)
			if says, _ := json.Marshal(got.Error.Message); got.Error.Param != c.param || !strings.Contains(string(says), c.says) {
				t.Errorf("%.80s: %+v", c.fields, got.Error)
			}
		}
	})
}

func judgeOf(t *testing.T, schema string) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", v); err != nil {
		t.Fatal(err)
	}
	judge, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return judge
}

// called is a chat answer that calls a function, whole or in the events of a stream.
type called struct {
	Choices []struct {
		Message, Delta struct {
			Content   *string
			ToolCalls []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Error struct{ Message, Param string }
}

// TestAutoToolCalls has the demo model write calls, to which its words are held, in each parser's form: they are told as calls, whole
// and as a stream. Without a parser auto is refused in vLLM's words.
func TestAutoToolCalls(t *testing.T) {
	const tools = `{"messages":[{"role":"user","content":"Call it"}],"tools":[{"type":"function","function":{"name":"weather"}}],"max_tokens":200,`
	ask := func(t *testing.T, p *program, fields string) string {
		response, err := http.Post(p.base+"/v1/chat/completions", "application/json", strings.NewReader(tools+fields+`}`))
		if err != nil {
			t.Fatal(err)
		}
		return readAll(t, response)
	}
	plain := serve(t, nil, "--tool-call-parser", "hermes")
	for _, choice := range []string{`"seed":1`, `"tool_choice":"auto"`} {
		if text := ask(t, plain, choice); !strings.Contains(text, `\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`) {
			t.Errorf("auto without a parser: %s", text)
		}
	}
	for parser, words := range map[string]string{
		"hermes":      `So. <tool_call>{"name": "weather", "arguments": {"n": 7}}</tool_call> <tool_call>{"name": "b", "arguments": {}}</tool_call>`,
		"llama3_json": `{"name": "weather", "parameters": {"n": 7}}; {"name": "b", "parameters": {}}`,
		"mistral":     `So. [TOOL_CALLS][{"name": "weather", "arguments": {"n": 7}}, {"name": "b", "arguments": {}}]`,
	} {
		t.Run(parser, func(t *testing.T) {
			p := serve(t, nil, "--enable-auto-tool-choice", "--tool-call-parser", parser)
			exactly, _ := json.Marshal(regexp.QuoteMeta(words))
			fields := `"guided_regex":` + string(exactly)
			var whole called
			if err := json.Unmarshal([]byte(ask(t, p, fields)), &whole); err != nil {
				t.Fatal(err)
			}
			c := whole.Choices[0]
			if len(c.Message.ToolCalls) != 2 || c.FinishReason != "tool_calls" || (c.Message.Content == nil) != (parser == "llama3_json") {
				t.Fatalf("%+v", c)
			}
			for i, want := range []string{`weather {"n": 7}`, `b {}`} {
				if call := c.Message.ToolCalls[i]; call.Function.Name+" "+call.Function.Arguments != want || call.ID == "" || call.Type != "function" {
					t.Errorf("call %d is %+v, want %s", i, call, want)
				}
			}
			var told [2]string
			finish := ""
			for line := range strings.SplitSeq(ask(t, p, fields+`,"stream":true`), "\n") {
				var event struct {
					Choices []struct {
						Delta struct {
							ToolCalls []struct {
								Index    int
								ID       string
								Function struct{ Name, Arguments string }
							} `json:"tool_calls"`
						}
						FinishReason string `json:"finish_reason"`
					}
				}
				if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &event) != nil || len(event.Choices) == 0 {
					continue
				}
				finish = event.Choices[0].FinishReason
				for _, part := range event.Choices[0].Delta.ToolCalls {
					if part.ID != "" {
						told[part.Index] += part.Function.Name + " "
					}
					told[part.Index] += part.Function.Arguments
				}
			}
			if told != [2]string{`weather {"n": 7}`, `b {}`} || finish != "tool_calls" {
				t.Errorf("as a stream %q, %s", told, finish)
			}
			if text := ask(t, p, fields+`,"tool_choice":"none"`); strings.Contains(text, `"tool_calls"`) {
				t.Errorf("none: %s", text)
			}
			if text := ask(t, p, `"guided_regex":"So"`); !strings.Contains(text, `"content":"So"`) || !strings.Contains(text, `"finish_reason":"stop"`) {
				t.Errorf("words that are no call: %s", text)
			}
		})
	}
}

// TestToolCalls has the demo model call functions.
func TestToolCalls(t *testing.T) {
	p := serve(t, nil)
	parameters := map[string]string{
		"weather": `{"type":"object","properties":{"city":{"$ref":"#/$defs/city"},"days":{"type":"integer","minimum":1,"maximum":9}},"required":["city","days"],"additionalProperties":false,"$defs":{"city":{"enum":["Rome","Riga"]}}}`,
		"like":    `{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"],"additionalProperties":false}`,
	}
	tools := `"tools":[{"type":"function","function":{"name":"weather","parameters":` + parameters["weather"] + `}},` +
		`{"type":"function","function":{"name":"like","description":"x","parameters":` + parameters["like"] + `}},{"type":"function","function":{"name":"stop"}}]`
	ask := func(t *testing.T, fields string) (all []called) {
		response, err := http.Post(p.base+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"Call it"}],`+tools+`,"max_tokens":60,`+fields+`}`))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(readAll(t, response), "\n") {
			var one called
			if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &one) == nil {
				all = append(all, one)
			}
		}
		return all
	}
	check := func(t *testing.T, name, arguments string) {
		t.Helper()
		var v any
		schema := parameters[name]
		if schema == "" {
			schema = `{"type":"object","additionalProperties":false}`
		}
		if err := json.Unmarshal([]byte(arguments), &v); err != nil {
			t.Errorf("%s is called with %q: %v", name, arguments, err)
		} else if err := judgeOf(t, schema).Validate(v); err != nil {
			t.Errorf("%s is called with %q: %v", name, arguments, err)
		}
	}
	for _, choice := range []string{`"required"`, `{"type":"function","function":{"name":"weather"}}`, `{"type":"function","function":{"name":"stop"}}`} {
		seen := map[string]int{}
		for seed := range 12 {
			fields := fmt.Sprintf(`"tool_choice":%s,"seed":%d,"temperature":50`, choice, seed)
			whole := ask(t, fields)[0].Choices[0]
			if len(whole.Message.ToolCalls) != 1 || whole.Message.Content != nil || whole.FinishReason != "tool_calls" {
				t.Fatalf("%s: %+v", fields, whole)
			}
			call := whole.Message.ToolCalls[0]
			if seen[call.Function.Name]++; call.Type != "function" || !strings.HasPrefix(call.ID, "call_") {
				t.Errorf("%+v", call)
			}
			check(t, call.Function.Name, call.Function.Arguments)
			var name, arguments, finish string
			for _, event := range ask(t, fields+`,"stream":true`) {
				c := event.Choices[0]
				finish = c.FinishReason
				for _, part := range c.Delta.ToolCalls {
					if (name == "") != (part.ID != "") {
						t.Errorf("%s: part %+v behind %s", fields, part, name)
					}
					name, arguments = name+part.Function.Name, arguments+part.Function.Arguments
				}
			}
			if name != call.Function.Name || arguments != call.Function.Arguments || finish != "tool_calls" {
				t.Errorf("%s: as a stream %s(%s) %s, whole %+v", fields, name, arguments, finish, call)
			}
		}
		if several := choice[0] != '{'; several != (len(seen) > 1) {
			t.Errorf("%s: called %v", choice, seen)
		}
	}
	if free := ask(t, `"tool_choice":"none"`)[0].Choices[0]; free.Message.Content == nil || len(free.Message.ToolCalls) != 0 {
		t.Errorf("none: %+v", free)
	}
	if cut := ask(t, `"tool_choice":"required","max_completion_tokens":2`)[0].Choices[0]; cut.FinishReason != "length" {
		t.Errorf("cut: %+v", cut)
	}
}
