package decision

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// letters has a token for each byte, and a template that shows roles.
type letters struct{}

func (letters) Encode(_ context.Context, _, text string, _ bool) (ids []engine.TokenID, _ error) {
	for i := range len(text) {
		ids = append(ids, engine.TokenID(text[i]))
	}
	return ids, nil
}
func (letters) Decode([]engine.TokenID, bool) (string, error) { return "", nil }
func (letters) TokenBytes(id engine.TokenID) []byte           { return []byte{byte(id)} }
func (letters) BytesPerToken() int                            { return 1 }
func (letters) VocabSize() int                                { return 256 }
func (letters) EOS() []engine.TokenID                         { return nil }
func (letters) TokenizerInfo() map[string]json.RawMessage     { return nil }

func (letters) RenderChat(raw []byte, o text.ChatOptions) (string, error) {
	var messages []decisions.Message
	if err := json.Unmarshal(raw, &messages); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "<%s>%s</>", m.Role, m.Content)
	}
	return b.String() + "<assistant thinking=" + string(o.Variables["enable_thinking"]) + ">", nil
}

// odds are how likely each byte is as the next token; all others are impossible.
func odds(id engine.TokenID) float64 {
	switch id {
	case 'A':
		return 0.1
	case 'B':
		return 0.3
	case 'C':
		return 0.2
	case 'x':
		return 0.4
	}
	return 0
}

func logprob(p float64) float32 {
	if p == 0 {
		return -1000
	}
	return float32(math.Log(p))
}

// model answers with odds, whatever came before.
func model(s *wire.Submit) []*wire.Result {
	work, out := s.Work.(*engine.Tokens), &engine.TokenOutput{Cached: 3}
	if work.Max > 0 {
		out.Answer = &engine.Answer{Token: 'x', Top: []engine.TokenLogprob{{ID: 'x', Logprob: logprob(odds('x'))}}}
		for _, id := range work.Ask.Labels {
			out.Answer.Labels = append(out.Answer.Labels, engine.TokenLogprob{ID: id, Logprob: logprob(odds(id))})
		}
	}
	if work.Ask.PromptLogprobs {
		for _, id := range work.IDs[1:] {
			out.Prompt = append(out.Prompt, engine.PromptScore{Logprob: logprob(odds(id)), Top: []engine.TokenLogprob{{ID: 'x', Logprob: logprob(odds('x'))}}})
		}
	}
	return []*wire.Result{{Job: s.ID, Output: out, Finish: engine.FinishLength}}
}

// decide runs a request through, and returns its reply and the prompts that the model was asked.
func decide(t *testing.T, asked *decisions.Request) (reply map[string]any, prompts []string) {
	t.Helper()
	s := clienttest.NewScheduler(model)
	pool := client.New(client.Config{MaxJobs: 1000}, s, zap.NewNop())
	s.Deliver = pool.Deliver
	pool.Deliver(clienttest.Welcome(1, 256))
	text := &text.Text{Tokenizer: letters{}, Template: letters{}}
	c, err := Prepare(t.Context(), text, request.New(pool, request.Origin{ID: "7", Arrived: time.Unix(9, 0), Model: "other", Named: asked.Model}), asked)
	if err == nil {
		err = c.Admit(t.Context())
	}
	if err == nil {
		err = c.Submit()
	}
	if err == nil {
		err = c.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := json.Unmarshal(c.Answer().AppendJSON(nil, nil), &reply); err != nil {
		t.Fatal(err)
	}
	submits, _ := s.Seen()
	for _, m := range submits {
		if m.Request != submits[0].ID {
			t.Errorf("job %v is of request %v, want the first one's %v: their answer waits for all", m.ID, m.Request, submits[0].ID)
		}
		var b bytes.Buffer
		for _, id := range m.Work.(*engine.Tokens).IDs {
			b.WriteByte(byte(id))
		}
		if ask := m.Work.(*engine.Tokens).Ask; ask.PromptLogprobs && b.String()[ask.PromptFrom-1] != '>' {
			t.Errorf("of %q the positions from %d on are scored, want the label's alone", b.String(), ask.PromptFrom)
		}
		prompts = append(prompts, b.String())
	}
	return reply, prompts
}

func near(t *testing.T, what string, got any, want float64) {
	t.Helper()
	if v, ok := got.(float64); !ok || math.Abs(v-want) > 1e-6 {
		t.Errorf("%s is %v, want %g", what, got, want)
	}
}

// TestDecisions: the three kinds of OpenAI's API, whose prompts have all of the input in common.
func TestDecisions(t *testing.T) {
	asked, refused := decisions.Decode([]byte(`{"model": "m", "input": "the facts", "questions": [
		{"type": "predicate", "instructions": "Is it?", "name": "is"},
		{"type": "choice", "instructions": "Which?", "choices": [{"value": "red", "description": "like blood"}, {"value": true}, {"value": "true"}]},
		{"type": "score", "instructions": "How much?", "levels": [{"label": "low"}, {"label": "mid"}, {"label": "high"}]}]}`))
	if refused != nil {
		t.Fatal(refused)
	}
	reply, prompts := decide(t, asked)
	answers := reply["answers"].([]any)
	is, which, much := answers[0].(map[string]any), answers[1].(map[string]any), answers[2].(map[string]any)
	near(t, "the predicate", is["probability"], 0.75) // A is false, B is true
	near(t, "the score", much["score"], (0.3+2*0.2)/0.6)
	near(t, "confidence", which["confidence"], 0.3)
	if is["name"] != "is" || which["name"] != nil || which["choice"] != true || is["scored"] != nil {
		t.Errorf("answers %v", answers)
	}
	if p := which["probabilities"].([]any); p[2].(map[string]any)["value"] != "true" || p[1].(map[string]any)["value"] != true {
		t.Errorf("probabilities %v: values keep their type", p)
	}
	const want = "<user>the facts\n\nAnswer with the letter of one option only.\nQuestion: Which?\nA: red - like blood\nB: true\nC: true</><assistant thinking=false>"
	if prompts[1] != want {
		t.Errorf("the model is asked\n%s, want\n%s", prompts[1], want)
	}
	u := reply["usage"].(map[string]any)
	near(t, "input tokens", u["input_tokens"], float64(len(prompts[0])+len(prompts[1])+len(prompts[2])))
	near(t, "cached tokens", u["input_tokens_details"].(map[string]any)["cached_tokens"], 9)
}

// TestMessages: a list of messages is the chat that the question ends.
func TestMessages(t *testing.T) {
	asked, refused := decisions.Decode([]byte(`{"model": "m", "input": [{"role": "developer", "content": "Be fair."},
		{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
		{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}], "questions": [{"type": "predicate", "instructions": "Is it?"}]}`))
	if refused != nil {
		t.Fatal(refused)
	}
	_, prompts := decide(t, asked)
	if want := "<system>Be fair.</><user>a\nb</><assistant>Call c1 of look: {}</><user>Answer with the letter of one option only.\nQuestion: Is it?\nA: false\nB: true<"; !strings.HasPrefix(prompts[0], want) {
		t.Errorf("the model is asked %s, want %s...", prompts[0], want)
	}
}

// TestSequences: more options than there are labels of one token are scored by all of a label's tokens, and the reply says so.
func TestSequences(t *testing.T) {
	var choices []string
	for i := range 30 {
		choices = append(choices, fmt.Sprintf(`{"value": "option %d"}`, i))
	}
	asked, refused := decisions.Decode([]byte(`{"model": "m", "input": "x", "questions": [{"type": "choice", "instructions": "Which?", "choices": [` + strings.Join(choices, ",") + `]}]}`))
	if refused != nil {
		t.Fatal(refused)
	}
	reply, prompts := decide(t, asked)
	answer := reply["answers"].([]any)[0].(map[string]any)
	list := answer["probabilities"].([]any)
	// A, B, C; AA, AB, AC among the first 30 labels
	mass := 0.1 + 0.3 + 0.2 + 0.1*(0.1+0.3+0.2)
	near(t, "the first option", list[0].(map[string]any)["probability"], 0.1/mass)
	near(t, "AB", list[27].(map[string]any)["probability"], 0.03/mass)
	if answer["scored"] != "sequences" || answer["choice"] != "option 1" || len(prompts) != 30 || !strings.HasSuffix(prompts[27], ">AB") {
		t.Errorf("%d prompts, the answer %v, scored %v", len(prompts), answer["choice"], answer["scored"])
	}
}

// TestTooMuch: a request whose questions multiply a long input is refused before it takes memory.
func TestTooMuch(t *testing.T) {
	question := `{"type": "predicate", "instructions": "Is it?"}`
	body := `{"model": "m", "input": "` + strings.Repeat("x", 1<<16) + `", "questions": [` + strings.Repeat(question+",", 299) + question + `]}`
	asked, refused := decisions.Decode([]byte(body))
	if refused != nil {
		t.Fatal(refused)
	}
	text := &text.Text{Tokenizer: letters{}, Template: letters{}}
	pool := client.New(client.Config{}, clienttest.NewScheduler(nil), zap.NewNop())
	_, err := Prepare(t.Context(), text, request.New(pool, request.Origin{Model: "other"}), asked)
	if err == nil || !strings.Contains(err.Error(), "16777216 tokens") {
		t.Errorf("300 questions about 65,536 tokens: %v, want a refusal with the limit", err)
	}
}

// TestOptionsTimesQuestionsAreBounded: options whose labels have several tokens are a prompt each, of which one request has not endlessly many.
func TestOptionsTimesQuestionsAreBounded(t *testing.T) {
	var choices []string
	for i := range decisions.MaxOptions {
		choices = append(choices, fmt.Sprintf(`{"value":"%d"}`, i))
	}
	question := `{"type":"choice","instructions":"Which?","choices":[` + strings.Join(choices, ",") + `]}`
	s := clienttest.NewScheduler(nil)
	pool := client.New(client.Config{}, s, zap.NewNop())
	served := clienttest.Welcome(1, 256)
	for i := range served.Served {
		served.Served[i].Tokens.MaxModelLen = 1 << 20
	}
	pool.Deliver(served)
	for questions, wants := range map[int]string{16: "", 17: "more than 4096 options"} {
		asked, refused := decisions.Decode([]byte(`{"model":"m","input":"x","questions":[` + strings.Repeat(question+",", questions-1) + question + `]}`))
		if refused != nil {
			t.Fatal(refused)
		}
		c, err := Prepare(t.Context(), &text.Text{Tokenizer: letters{}, Template: letters{}}, request.New(pool, request.Origin{Model: "other"}), asked)
		if err == nil {
			err = c.Admit(t.Context())
		}
		if got := fmt.Sprint(err); (err == nil) != (wants == "") || !strings.Contains(got, wants) {
			t.Errorf("%d questions: %v, want %q", questions, err, wants)
		}
	}
}

// TestSystemOne: questions and criteria keep their order, and the reply is keyed by theirs.
func TestSystemOne(t *testing.T) {
	asked, refused := decisions.DecodeSystemOne([]byte(`{"model": "m", "state": {"n": 1}, "instructions": "Be fair.", "questions": {
		"z": {"type": "choice", "instructions": "Which?", "criteria": {"late": "by day", "early": null}},
		"a": {"type": "noul", "instructions": "Is it?", "criteria": {"true": "yes"}},
		"m": {"type": "score", "instructions": "How much?", "criteria": ["none", "all"]}}}`))
	if refused != nil {
		t.Fatal(refused)
	}
	reply, prompts := decide(t, asked)
	answers := reply["answers"].(map[string]any)
	near(t, "noul", answers["a"].(map[string]any)["noul"], 0.75)
	near(t, "score", answers["m"].(map[string]any)["score"], 0.75)
	near(t, "label mass", reply["diagnostics"].(map[string]any)["z"].(map[string]any)["label_mass"], 0.4)
	if answers["z"].(map[string]any)["choice"] != "early" || answers["m"].(map[string]any)["legend"].(map[string]any)["1"] != "all" {
		t.Errorf("answers %v", answers)
	}
	if want := "<system>Be fair.</><user>{\"n\": 1}\n\nAnswer with the letter of one option only.\nQuestion: Which?\nA: late - by day\nB: early<"; !strings.HasPrefix(prompts[0], want) {
		t.Errorf("the model is asked %s, want %s...", prompts[0], want)
	}
}

// TestSystemOneContent: what is a text may be an object or a list, which the model reads as JSON; one option is certain.
func TestSystemOneContent(t *testing.T) {
	asked, refused := decisions.DecodeSystemOne([]byte(`{"state": ["a", 1], "instructions": ["Be strict"], "questions": {
		"is": {"type": "noul", "instructions": {"rules": ["r"]}, "criteria": {"true": {"if": "so"}}},
		"which": {"type": "choice", "instructions": "Which?", "criteria": {"billing": ["refunds"]}},
		"much": {"type": "score", "instructions": "How much?", "criteria": [{"label": "low"}, "high"]}}}`))
	if refused != nil {
		t.Fatal(refused)
	}
	reply, prompts := decide(t, asked)
	for i, want := range []string{
		"<system>[\"Be strict\"]</><user>[\"a\", 1]\n\nAnswer with the letter of one option only.\nQuestion: {\"rules\": [\"r\"]}\nA: false\nB: true - {\"if\": \"so\"}</>",
		"Question: Which?\nA: billing - [\"refunds\"]</>",
		"Question: How much?\nA: {\"label\": \"low\"}\nB: high</>",
	} {
		if !strings.Contains(prompts[i], want) {
			t.Errorf("the model is asked\n%s, want\n%s", prompts[i], want)
		}
	}
	answers := reply["answers"].(map[string]any)
	which := answers["which"].(map[string]any)
	near(t, "the only option", which["probabilities"].(map[string]any)["billing"], 1)
	if legend := fmt.Sprint(answers["much"].(map[string]any)["legend"]); which["choice"] != "billing" || legend != "map[0:map[label:low] 1:high]" {
		t.Errorf("answers %v", answers)
	}
}
