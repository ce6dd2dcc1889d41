package field

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestAnswersOfAForm(t *testing.T) {
	form := func(saw, thread, fields string, check func(t *testing.T, text string)) row {
		return row{
			saw: saw, thread: thread, path: chat, body: of(generator, hi+`"max_tokens":300,"seed":1,`+fields), status: 200,
			check: func(t *testing.T, a *answer) {
				text := a.word("choices.0.message.content")
				if a.word("choices.0.finish_reason") != "stop" {
					t.Errorf("it ends by %q", a.word("choices.0.finish_reason"))
				}
				check(t, text)
			},
		}
	}
	one := func(texts ...string) func(*testing.T, string) {
		return func(t *testing.T, text string) {
			for _, want := range texts {
				if text == want {
					return
				}
			}
			t.Errorf("%q, want one of %q", text, texts)
		}
	}
	matches := func(pattern string) func(*testing.T, string) {
		return func(t *testing.T, text string) {
			if !regexp.MustCompile(`^(?s:` + pattern + `)$`).MatchString(text) {
				t.Errorf("%q does not match %s", text, pattern)
			}
		}
	}
	object := func(keys ...string) func(*testing.T, string) {
		return func(t *testing.T, text string) {
			var have map[string]any
			if err := json.Unmarshal([]byte(text), &have); err != nil || len(have) != len(keys) {
				t.Errorf("%q: %v", text, err)
			}
			for _, k := range keys {
				if _, ok := have[k]; !ok {
					t.Errorf("%q lacks %q", text, k)
				}
			}
		}
	}
	refused := func(saw, thread, fields, param string, words ...string) row {
		return row{saw: saw, thread: thread, path: chat, body: of(generator, hi+fields), status: 400, want: map[string]string{"error.param": `"` + param + `"`}, check: says(words...)}
	}
	run(t, []row{
		form("a guided choice answered with a sentence", "vllm-project/vllm#12225", `"guided_choice":["positive","negative"]`, one("positive", "negative")),
		form("a guided choice gave 500", "vllm-project/vllm#13260", `"guided_choice":["positive","negative"],"temperature":0`, one("positive", "negative")),
		form("a JSON schema's enumeration was not kept", "vllm-project/vllm#13683",
			`"guided_json":{"type":"object","properties":{"brand":{"type":"string","maxLength":10},"model":{"type":"string","maxLength":10},"car_type":{"$ref":"#/$defs/CarType"}},"required":["brand","model","car_type"],"$defs":{"CarType":{"enum":["sedan","SUV","Truck","Coupe"],"type":"string"}}}`,
			object("brand", "model", "car_type")),
		form("a class of characters from U+0000 on was an unclosed bracket", "vllm-project/vllm#15210", `"guided_regex":"[\u0000-\u2e7f]{1,8}"`, matches(`[\x00-\x{2e7f}]{1,8}`)),
		form("maxLength was not kept", "vllm-project/vllm#15790", `"guided_json":{"type":"object","properties":{"name":{"type":"string","maxLength":10},"age":{"type":"integer","minimum":0,"maximum":99}},"required":["name","age"]}`,
			func(t *testing.T, text string) {
				var have struct {
					Name string
					Age  int
				}
				if err := json.Unmarshal([]byte(text), &have); err != nil || len([]rune(have.Name)) > 10 || have.Age < 0 || have.Age > 99 {
					t.Errorf("%q: %v", text, err)
				}
			}),
		form("the documentation's example of an address, which ends at a stop text, failed", "vllm-project/vllm#15236", `"guided_regex":"[a-z]{1,8}@[a-z]{1,8}\\.com\\n","stop":["\n"]`, matches(`[a-z]{1,8}@[a-z]{1,8}\.com`)),
		form("a choice with a quotation mark and a backslash broke the grammar", several, `"guided_choice":["say \"a\"\\n","it's [b]"]`, one(`say "a"\n`, "it's [b]")),
		form("choices of which one begins the other gave always the shorter", several, `"guided_choice":["no","not at all"],"logit_bias":{"1":-100}`, one("no", "not at all")),
		form("a choice of other scripts was cut into bytes", several, `"guided_choice":["是","нет","🙂"]`, one("是", "нет", "🙂")),
		form("an enumeration with quotes was no JSON", several, `"guided_json":{"enum":["a\"b","c\\d","e\nf"]}`, func(t *testing.T, text string) {
			var have string
			if err := json.Unmarshal([]byte(text), &have); err != nil {
				t.Errorf("%q: %v", text, err)
			}
			one("a\"b", `c\d`, "e\nf")(t, have)
		}),
		form("a constant of a schema was another", several, `"guided_json":{"const":{"a":[1,null,true]}}`, func(t *testing.T, text string) {
			var have map[string][]any
			if err := json.Unmarshal([]byte(text), &have); err != nil || len(have["a"]) != 3 || have["a"][0] != 1.0 || have["a"][2] != true {
				t.Errorf("%q: %v", text, err)
			}
		}),
		{
			saw: "a schema that refers to itself never ended its compilation", thread: several, path: completions, status: 200,
			body: of(generator, `"prompt":"hi","max_tokens":40,"guided_json":{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer","minimum":0,"maximum":9},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]}}}`),
			check: func(t *testing.T, a *answer) {
				matches(`(\{"v": [0-9], "next": )+(null)?.*`)(t, a.word("choices.0.text"))
			},
		},
		form("a pattern in a schema was not anchored", several, `"guided_json":{"type":"string","pattern":"^[0-9]{4}-[0-9]{2}$"}`, matches(`"[0-9]{4}-[0-9]{2}"`)),
		form("keys of other scripts were escaped twice", several, `"guided_json":{"type":"object","properties":{"naïve \"键\"":{"type":"boolean"}},"required":["naïve \"键\""]}`, object(`naïve "键"`)),
		form("response_format of json_schema was passed over", several, `"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}}}`, object("ok")),
		form("a grammar of SQL was passed over", several, `"guided_grammar":"start: \"SELECT \" NAME \" FROM \" NAME\nNAME: /[a-z]{1,6}/"`, matches(`SELECT [a-z]{1,6} FROM [a-z]{1,6}`)),
		refused("a regular expression that does not close was a server error", several, `"guided_regex":"[a"`, "guided_regex"),
		refused("no choices were a server error", several, `"guided_choice":[]`, "guided_choice"),
		refused("a reference to nothing was a server error", several, `"guided_json":{"$ref":"#/$defs/none"}`, "guided_json", "none"),
		refused("a schema of an unknown type was passed over", several, `"guided_json":{"type":"strnig"}`, "guided_json", "strnig"),
		refused("two forms at once took one of them", several, `"guided_choice":["a"],"guided_regex":"b"`, "guided_regex"),
		refused("response_format of an unknown type was passed over", several, `"response_format":{"type":"yaml"}`, "response_format.type", "yaml"),
	})
}

func TestChats(t *testing.T) {
	tool := `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"unit":{"enum":["C","F"]}},"required":["unit"]}}}]`
	refused := func(saw, fields, param string, words ...string) row {
		return row{saw: saw, thread: several, path: chat, body: of(generator, fields), status: 400, want: map[string]string{"error.param": `"` + param + `"`}, check: says(words...)}
	}
	called := map[string]string{
		"choices.0.message.content": `null`, "choices.0.message.tool_calls.#": `1`, "choices.0.message.tool_calls.0.function.name": `"get_weather"`,
		"choices.0.message.tool_calls.0.type": `"function"`, "choices.0.finish_reason": `"tool_calls"`,
	}
	arguments := func(t *testing.T, a *answer) {
		var have struct{ Unit string }
		if err := json.Unmarshal([]byte(a.word("choices.0.message.tool_calls.0.function.arguments")), &have); err != nil || have.Unit != "C" && have.Unit != "F" {
			t.Errorf("arguments %q: %v", a.word("choices.0.message.tool_calls.0.function.arguments"), err)
		}
		if a.word("choices.0.message.tool_calls.0.id") == "" {
			t.Error("the call has no id")
		}
	}
	run(t, []row{
		{saw: "tool_choice required answered in text", thread: several, path: chat, body: of(generator, hi+tool+`,"tool_choice":"required","max_tokens":100`), status: 200, want: called, check: arguments},
		{saw: "a named function was passed over", thread: several, path: chat, body: of(generator, hi+tool+`,"tool_choice":{"type":"function","function":{"name":"get_weather"}},"max_tokens":100`), status: 200, want: called, check: arguments},
		{saw: "tool_choice none called all the same", thread: several, path: chat, body: of(generator, hi+tool+`,"tool_choice":"none","max_tokens":2`), status: 200, want: map[string]string{"choices.0.message.role": `"assistant"`}},
		refused("a named function that is not there was a server error", hi+tool+`,"tool_choice":{"type":"function","function":{"name":"other"}}`, "tool_choice", "other"),
		refused("tool_choice required without tools was a server error", hi+`"tool_choice":"required"`, "tool_choice"),
		refused("tool_choice auto on a server without a parser answered in raw text", hi+tool+`,"tool_choice":"auto"`, "tool_choice", "--enable-auto-tool-choice"),
		refused("no messages were a server error", `"messages":[]`, "messages"),
		refused("an unknown part of a content was passed over", `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}}]}]`, "messages", "image_url"),
		{
			saw: "a content of parts was printed as a list", thread: several, path: chat, status: 200,
			body: of(generator, `"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":1,"temperature":0`),
			check: func(t *testing.T, a *answer) {
				b := ask(t, chat, of(generator, hi+`"max_tokens":1,"temperature":0`))
				if a.word("choices.0.message.content") != b.word("choices.0.message.content") || a.number("usage.prompt_tokens") != b.number("usage.prompt_tokens") {
					t.Error("it is not as the text")
				}
			},
		},
		{
			saw: "a role that the template refuses was a server error", thread: several, path: chat, body: of(generator, `"messages":[{"role":"critic","content":"hi"}],"max_tokens":1`), status: 400,
			check: says("the demo model knows the roles"),
		},
		{
			saw: "top_logprobs without logprobs were passed over", thread: several, path: chat, body: of(generator, hi+`"max_tokens":1,"top_logprobs":2`), status: 400,
			want: map[string]string{"error.param": `"top_logprobs"`},
		},
		{
			saw: "max_completion_tokens was passed over", thread: several, path: chat, body: of(generator, hi+`"max_completion_tokens":2,"ignore_eos":true`), status: 200,
			want: map[string]string{"usage.completion_tokens": `2`, "choices.0.finish_reason": `"length"`},
		},
		{
			saw: "the bytes of a token's half a character were an error", thread: several, path: chat, body: of(generator, hi+`"guided_choice":["🙂"],"logprobs":true,"max_tokens":20`), status: 200,
			check: func(t *testing.T, a *answer) {
				var text []byte
				for i := range int(a.number("choices.0.logprobs.content.#")) {
					for _, b := range a.list(fmt.Sprintf("choices.0.logprobs.content.%d.bytes", i)) {
						text = append(text, byte(b))
					}
				}
				if !strings.HasPrefix(string(text), "🙂") {
					t.Errorf("the bytes are %q", text)
				}
			},
		},
		{
			saw: "text was another after /tokenize and /detokenize", thread: several, path: "/detokenize",
			body: of(generator, `"tokens":[78,134,109,308,85,227,179,260,254,231]`), status: 200, want: map[string]string{"prompt": `"héllo 🙂"`},
		},
		{
			saw: "/detokenize of an id above the vocabulary was a server error", thread: several, path: "/detokenize", body: of(generator, `"tokens":[2986]`), status: 400,
			want: map[string]string{"error.param": `"tokens"`}, check: says("2986"),
		},
		{
			saw: "/tokenize of nothing was an error", thread: several, path: "/tokenize", body: of(generator, `"prompt":"","add_special_tokens":false`), status: 200,
			want: map[string]string{"count": `0`, "tokens": `[]`},
		},
		{
			saw: "special tokens were added to a chat that has them", thread: several, path: "/tokenize", body: of(generator, `"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false`), status: 200,
			want: map[string]string{"tokens.0": `0`},
			check: func(t *testing.T, a *answer) {
				if a.number("tokens.1") == 0 {
					t.Error("the first token is there twice")
				}
			},
		},
	})
}
