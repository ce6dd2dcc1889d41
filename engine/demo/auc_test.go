//go:build cgo

package demo

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// example is a line of testdata/held_out.jsonl, drawn by tools/train/demo/train.py apart from what the
// model was trained on.
type example struct {
	Task   string
	Prompt string
	Yes    bool
}

func heldOut(t *testing.T) []example {
	t.Helper()
	file, err := os.Open("testdata/held_out.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all []example
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e example
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("line %d: %v", len(all)+1, err)
		}
		all = append(all, e)
	}
	return all
}

// scorer asks the demo model for P(Yes) among Yes and No.
type scorer struct {
	tokenizer *tokenizer.Tokenizer
	model     *model.Model
}

func extracted(t *testing.T) string {
	t.Helper()
	dir, err := Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func newScorer(t *testing.T, dir string) scorer {
	t.Helper()
	tok, err := tokenizer.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	m, err := model.Load(dir, newBackend(t), model.Options{MaxLen: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return scorer{tok, m}
}

func newBackend(t *testing.T) kernels.Backend {
	t.Helper()
	var backend kernels.Backend = ref.New()
	if fast, err := cpu.New(cpu.Config{}); err == nil {
		backend = fast
	}
	t.Cleanup(backend.Close)
	return backend
}

func (s scorer) one(t *testing.T, text string) engine.TokenID {
	t.Helper()
	ids := s.encode(t, text, false)
	if len(ids) != 1 {
		t.Fatalf("%q is %d tokens, not one", text, len(ids))
	}
	return ids[0]
}

func (s scorer) encode(t *testing.T, text string, addSpecial bool) []engine.TokenID {
	t.Helper()
	ids, err := s.tokenizer.Encode(t.Context(), "", text, addSpecial)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// score returns P(Yes); a chat begins its answer with "Yes", a plain text with " Yes".
func (s scorer) score(t *testing.T, prompt string, chat bool) float64 {
	t.Helper()
	labels := []engine.TokenID{s.one(t, " Yes"), s.one(t, " No")}
	ids := s.encode(t, prompt, true)
	if chat {
		labels = []engine.TokenID{s.one(t, "Yes"), s.one(t, "No")}
		messages, err := json.Marshal([]map[string]string{{"role": "user", "content": prompt}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.tokenizer.RenderChat(messages, text.ChatOptions{AddGenerationPrompt: true})
		if err != nil {
			t.Fatal(err)
		}
		ids = s.encode(t, text, false)
	}
	pass, err := s.model.Begin(&wire.Run{Items: []wire.RunItem{{Work: &wire.TokenItem{Tokens: ids, Ask: engine.Ask{Allowed: engine.NewTokenSet(labels...), Labels: labels}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	for done := false; !done; {
		if done, err = pass.Step(); err != nil {
			t.Fatal(err)
		}
	}
	result := pass.Results()[0]
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	found := result.Output.(*engine.TokenOutput).Answer
	yes, no := math.Exp(float64(found.Labels[0].Logprob)), math.Exp(float64(found.Labels[1].Logprob))
	if math.Abs(yes+no-1) > 1e-4 {
		t.Fatalf("P(Yes) %g and P(No) %g do not add up to 1", yes, no)
	}
	return yes
}

// TestScoresSeparateHeldOutUsers demands an area under the ROC curve of 0.9 for people the model
// has not seen. Every question is put for two people, one with each answer, so that the question
// alone is worth 0.5.
func TestScoresSeparateHeldOutUsers(t *testing.T) {
	examples := heldOut(t)
	for i := 0; i < len(examples); i += 2 {
		if examples[i].Yes == examples[i+1].Yes || question(examples[i]) != question(examples[i+1]) {
			t.Fatalf("lines %d and %d are not one question with two answers", i+1, i+2)
		}
	}
	for _, a := range areas(t, newScorer(t, extracted(t)), examples) {
		if a.area < 0.9 {
			t.Errorf("%s, chat %v: AUC %.3f, below 0.9", a.task, a.chat, a.area)
		}
	}
}

// area is an area under the ROC curve of a task.
type area struct {
	task string
	chat bool
	area float64
}

func areas(t *testing.T, s scorer, examples []example) (list []area) {
	t.Helper()
	for _, task := range []string{"post", "credit"} {
		for _, chat := range []bool{false, true} {
			var yes, no []float64
			right := 0
			for _, e := range examples {
				if e.Task != task {
					continue
				}
				p := s.score(t, e.Prompt, chat)
				if e.Yes {
					yes = append(yes, p)
				} else {
					no = append(no, p)
				}
				if (p > 0.5) == e.Yes {
					right++
				}
			}
			list = append(list, area{task, chat, auc(yes, no)})
			t.Logf("%s, chat %v: AUC %.4f, %d of %d right at 0.5", task, chat, auc(yes, no), right, len(yes)+len(no))
		}
	}
	return list
}

// question is the line of the prompt that holds the post or the amount.
func question(e example) string {
	lines := strings.Split(e.Prompt, "\n")
	return lines[len(lines)-2]
}

// auc is the share of pairs that are in the right order; ties count half.
func auc(yes, no []float64) float64 {
	wins := 0.0
	for _, y := range yes {
		for _, n := range no {
			switch {
			case y > n:
				wins++
			case y == n:
				wins += 0.5
			}
		}
	}
	return wins / float64(len(yes)*len(no))
}
