package decisions

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestMalformedDecisionsAreRefused: what is wrong is named by its field.
func TestMalformedDecisionsAreRefused(t *testing.T) {
	const q = `"questions": [{"type": "predicate", "instructions": "Is it?"}]`
	for _, c := range []struct{ body, param, says string }{
		{`{` + q + `}`, "input", "missing"},
		{`{"input": 3, ` + q + `}`, "input", "must be a string"},
		{`{"input": [], ` + q + `}`, "input", "empty list"},
		{`{"input": [{"role": "robot", "content": "x"}], ` + q + `}`, "input[0].role", "robot"},
		{`{"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}], ` + q + `}`, "input[0].content[0]", "image"},
		{`{"input": [{"type": "tea"}], ` + q + `}`, "input[0].type", "tea"},
		{`{"input": "x"}`, "questions", "at least one"},
		{`{"input": "x", "questions": [` + strings.Repeat(`{"type": "predicate", "instructions": "x"},`, 400) + `{"type": "predicate", "instructions": "x"}]}`, "questions", "401"},
		{`{"input": "x", "questions": [{"type": "riddle", "instructions": "x"}]}`, "questions[0].type", "riddle"},
		{`{"input": "x", "questions": [{"type": "predicate"}]}`, "questions[0].instructions", "missing"},
		{`{"input": "x", "questions": [{"type": "choice", "instructions": "x", "choices": [{"value": "a"}]}]}`, "questions[0].choices", "1 entries"},
		{`{"input": "x", "questions": [{"type": "choice", "instructions": "x", "choices": [{"value": "a"}, {"value": "a"}]}]}`, "questions[0].choices", "before"},
		{`{"input": "x", "questions": [{"type": "choice", "instructions": "x", "choices": [{"value": 3}, {"value": "a"}]}]}`, "questions[0].choices", "value"},
		{`{"input": "x", "questions": [{"type": "score", "instructions": "x", "levels": [{"label": "a"}, {"label": " "}]}]}`, "questions[0].levels", "empty"},
		{`{"input": "x", "joint": true, ` + q + `}`, "joint", "by itself"},
		{`{"input": "x", "input": "y", ` + q + `}`, "input", "input"},
	} {
		_, err := Decode([]byte(c.body))
		if err == nil || err.Param != c.param || !strings.Contains(err.Message, c.says) {
			t.Errorf("%.80s: %+v, want %q about %s", c.body, err, c.says, c.param)
		}
	}
	for _, c := range []struct{ body, param string }{
		{`{"state": "x", "questions": {}}`, "questions"},
		{`{"state": "x", "images": ["u"], "questions": {"a": {"type": "noul", "instructions": "x"}}}`, "images"},
		{`{"state": "x", "questions": {"a": {"type": "noul"}}}`, "questions.a.instructions"},
		{`{"state": "x", "questions": {"a": {"type": "choice", "instructions": "x", "criteria": {"one": 1, "two": null}}}}`, "questions.a.criteria.one"},
		{`{"state": "x", "questions": {"a": {"type": "score", "instructions": "x", "criteria": {"one": null}}}}`, "questions.a.criteria"},
		{`{"state": "x", "questions": {"a": {"type": "choice", "instructions": "x", "criteria": {}}}}`, "questions.a.criteria"},
		{`{"state": "x", "questions": {"a": {"type": "noul", "instructions": "x", "criteria": {"true": "t", "yes": "y"}}}}`, "questions.a.criteria"},
		{`{"state": "x", "questions": {"a": {"type": "noul", "instructions": "x", "criteria": {"True": "t"}}}}`, "questions.a.criteria"},
		{`{"state": "x", "questions": {"a": {"type": "noul", "instructions": 3}}}`, "questions.a.instructions"},
		{`{"state": "x", "questions": {"a": {"type": "noul", "instructions": "x", "choices": ["y"]}}}`, "questions.a"},
		{`{"state": "x", "questions": {"a": {"type": "score", "instructions": "x", "criteria": ["a", 3]}}}`, "questions.a.criteria[1]"},
		{`{"state": "x", "instructions": true, "questions": {"a": {"type": "noul", "instructions": "x"}}}`, "instructions"},
		{`{"state": "x", "questions": {"a": 3}}`, "questions.a"},
	} {
		if _, err := DecodeSystemOne([]byte(c.body)); err == nil || err.Param != c.param {
			t.Errorf("%.80s: %+v, want one about %s", c.body, err, c.param)
		}
	}
}

// TestSaltsOfPairs: no other pair of prompt_cache_key and cache_salt, and no cache_salt alone, has the salt of a pair.
func TestSaltsOfPairs(t *testing.T) {
	seen := map[string]string{}
	parts := []string{``, `a`, `b`, `ab`, `1:a`, `1:ab`, `\u0000`, `a\u0000`, `\u0000b`, `a\u0000b`, `1:a\u0000b`}
	for _, key := range parts {
		for _, salt := range parts {
			body := `{"input":"x","questions":[{"type":"predicate","instructions":"x"}],"prompt_cache_key":"` + key + `","cache_salt":"` + salt + `"}`
			r, err := Decode([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[r.Salt]; ok {
				t.Errorf("the salt of %s is that of %s", body, other)
			}
			seen[r.Salt] = body
		}
	}
}

// FuzzDecode: no body crashes, and what is taken can be answered with JSON.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"model": "m", "input": [{"role": "user", "content": "x"}, {"type": "function_call_output", "output": "y"}], "questions": [
		{"type": "predicate", "instructions": "x"}, {"type": "choice", "instructions": "x", "choices": [{"value": "a"}, {"value": false}]},
		{"type": "score", "instructions": "x", "levels": [{"label": "a"}, {"label": "b"}]}]}`))
	f.Add([]byte(`{"state": null, "questions": {"a": {"type": "noul", "instructions": "x"}, "b": {"type": "choice", "instructions": "x", "criteria": {"o": null, "p": "q"}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		one, _ := Decode(body)
		two, _ := DecodeSystemOne(body)
		for _, r := range []*Request{one, two} {
			if r == nil {
				continue
			}
			a := &Answered{ID: "1", Model: r.Model}
			for _, q := range r.Questions {
				n := len(q.Options)
				found := Found{Probabilities: make([]float64, n), Mass: 0.5}
				found.Probabilities[n-1] = 1
				a.Questions = append(a.Questions, found)
			}
			if reply := r.Answer(a).AppendJSON(nil, nil); !json.Valid(reply) {
				t.Errorf("the reply to %s is no JSON: %s", body, reply)
			}
		}
	})
}
