package toolcalls

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

var cases = []struct {
	parser, text, content string
	calls                 []Call
}{
	{"hermes", "The weather is fine.", "The weather is fine.", nil},
	{"hermes", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\", \"n\": [1, {\"a\": \"}\"}]}}\n</tool_call>", "", []Call{{"weather", `{"city": "Bonn", "n": [1, {"a": "}"}]}`}}},
	{"hermes", "Let me see.\n<tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"b\",\"arguments\":{\"x\":\"\\\"{\"}}</tool_call> bye", "Let me see.\n", []Call{{"a", "{}"}, {"b", `{"x":"\"{"}`}}},
	{"hermes", `<tool_call>{"arguments": {"x": 1}, "name": "late"}</tool_call>`, "", []Call{{"late", `{"x": 1}`}}},
	{"hermes", `<tool_call>{"name": "open", "arguments": {"x": 1}}`, "", []Call{{"open", `{"x": 1}`}}},
	{"hermes", `<tool_call>{"name": "cut", "arguments": {"x": 1`, `<tool_call>{"name": "cut", "arguments": {"x": 1`, nil},
	{"hermes", `<tool_call>{"name": "none"}</tool_call>`, `<tool_call>{"name": "none"}</tool_call>`, nil},
	{"hermes", `<tool_call>no JSON</tool_call>`, `<tool_call>no JSON</tool_call>`, nil},
	{"hermes", `a <tool_cal b <tool_call`, `a <tool_cal b <tool_call`, nil},
	{"llama3_json", `{"name": "f", "parameters": {"a": "b"}}`, "", []Call{{"f", `{"a": "b"}`}}},
	{"llama3_json", ` <|python_tag|>{"type": "function", "name": "f", "parameters": {}}; {"name": "g", "arguments": {"k": 2}}`, "", []Call{{"f", "{}"}, {"g", `{"k": 2}`}}},
	{"llama3_json", `{"answer": {"name": "f"}}`, `{"answer": {"name": "f"}}`, nil},
	{"llama3_json", `Say {"name": "f", "parameters": {}}`, `Say {"name": "f", "parameters": {}}`, nil},
	{"llama3_json", `<|pyth`, `<|pyth`, nil},
	{"mistral", `[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]`, "", []Call{{"f", `{"a": 1}`}, {"g", "{}"}}},
	{"mistral", `Well. [TOOL_CALLS] [{"arguments": {"a": 1}, "name": "f"}]`, "Well. ", []Call{{"f", `{"a": 1}`}}},
	{"mistral", `[TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{"b": "{"}`, "", []Call{{"f", `{"a": 1}`}, {"g", `{"b": "{"}`}}},
	{"mistral", `[TOOL_CALLS]f{"name": "x", "arguments": 1}`, "", []Call{{"f", `{"name": "x", "arguments": 1}`}}},
	{"mistral", `[TOOL_CALLS]`, `[TOOL_CALLS]`, nil},
	{"mistral", `[TOOL_CALLS]["no"]`, `[TOOL_CALLS]["no"]`, nil},
}

func TestParse(t *testing.T) {
	for _, c := range cases {
		content, calls := Parse(c.parser, c.text)
		if content != c.content || !reflect.DeepEqual(calls, c.calls) {
			t.Errorf("%s: %s: %q and %q, want %q and %q", c.parser, c.text, content, calls, c.content, c.calls)
		}
	}
}

// streamed gathers what an answer in pieces of n bytes is.
func streamed(t *testing.T, name, text string, n int) (content string, calls []Call) {
	t.Helper()
	p := New(name)
	for at := 0; ; at += n {
		last := at+n >= len(text)
		for _, part := range p.ParseText(text[min(at, len(text)):min(at+n, len(text))], last) {
			switch {
			case part.Name != "":
				if part.Call != len(calls) {
					t.Fatalf("call %d begins behind %d", part.Call, len(calls))
				}
				calls = append(calls, Call{part.Name, part.Arguments})
			case part.Arguments != "":
				calls[part.Call].Arguments += part.Arguments
			default:
				content += part.Text
			}
		}
		if last {
			if p.Calls() != len(calls) {
				t.Fatalf("%d calls are counted, %d were told", p.Calls(), len(calls))
			}
			return content, calls
		}
	}
}

// TestStreams holds that an answer in pieces is what it is whole.
func TestStreams(t *testing.T) {
	for _, c := range cases {
		want, whole := streamed(t, c.parser, c.text, len(c.text)+1)
		for n := 1; n < 9; n++ {
			if content, calls := streamed(t, c.parser, c.text, n); content != want || !reflect.DeepEqual(calls, whole) {
				t.Errorf("%s by %d: %s: %q and %q, whole %q and %q", c.parser, n, c.text, content, calls, want, whole)
			}
		}
	}
	p, early := New("hermes"), ""
	for _, piece := range []string{"Hi ", "<tool", "_call>{\"name\": \"f\", ", "\"arguments\": {\"a\":", " \"bc", "d\"}}"} {
		for _, part := range p.ParseText(piece, false) {
			early += part.Text + part.Name + part.Arguments + "|"
		}
	}
	if want := `Hi |f{"a":| "bc|d"}|`; early != want {
		t.Errorf("a call is told as %q, want %q", early, want)
	}
}

// FuzzParser holds for any text that pieces tell what the whole does, that text without calls stays as it is, and that a
// call's arguments are JSON.
func FuzzParser(f *testing.F) {
	for _, c := range cases {
		f.Add(c.parser, c.text, 3)
	}
	f.Fuzz(func(t *testing.T, name, text string, n int) {
		name = Names()[len(name)%3]
		n = 1 + max(n, -n, 0)%20
		want, whole := streamed(t, name, text, len(text)+1)
		if content, calls := streamed(t, name, text, n); content != want || !reflect.DeepEqual(calls, whole) {
			t.Fatalf("%s by %d: %q and %q, whole %q and %q", name, n, content, calls, want, whole)
		}
		content, calls := Parse(name, text)
		if len(calls) == 0 && content != text || len(calls) > 0 && !strings.HasPrefix(text, content) {
			t.Fatalf("%s: %q and %q of %q", name, content, calls, text)
		}
		for _, c := range calls {
			if c.Name == "" || !json.Valid([]byte(c.Arguments)) {
				t.Fatalf("%+v", c)
			}
		}
	})
}
