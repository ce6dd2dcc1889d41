package main

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/prefillonly/prefillonly/internal/cli"
)

// likes is the demo model's logprobs of " Yes" and " No" about a post that the user likes.
func (p *program) likes() []float64 {
	p.Helper()
	body := `{"prompt": "User profile: age 31. Interests: Sailing and Finance.\nPost about sailing: Best tide of the week\nWill the user like it? Answer Yes or No:",
		"max_tokens": 1, "temperature": 0, "logprobs": 2, "allowed_token_ids": [274, 270]}`
	response, err := http.Post(p.base+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	var answer struct {
		Choices []struct {
			Logprobs struct {
				Top []map[string]float64 `json:"top_logprobs"`
			}
		}
	}
	if text := readAll(p, response); json.Unmarshal([]byte(text), &answer) != nil || len(answer.Choices) != 1 || len(answer.Choices[0].Logprobs.Top) != 1 {
		p.Fatalf("status %d: %s", response.StatusCode, text)
	}
	top := answer.Choices[0].Logprobs.Top[0]
	return []float64{top[" Yes"], top[" No"]}
}

// TestServeOverRanks serves the demo model over two ranks: one executor, whose answers are those of
// one device but for rounding, and the same bits each time.
func TestServeOverRanks(t *testing.T) {
	one := serve(t, nil, "--device", "cpu").likes()
	p := serve(t, nil, "--device", "cpu", "--tensor-parallel-size", "2", "--threads", "2")
	two := p.likes()
	for i := range one {
		if off := math.Abs(two[i] - one[i]); !(off < 0.05) {
			t.Errorf("logprobs over two ranks are %v, over one %v", two, one)
		}
	}
	if again := p.likes(); again[0] != two[0] || again[1] != two[1] {
		t.Errorf("asked again the logprobs are %v, before %v", again, two)
	}
	if !strings.Contains(p.logged(), ` x2"`) {
		t.Errorf("no executor says that it has two ranks:\n%s", p.logged())
	}
	p.strike("executor", syscall.SIGKILL)
	if again := p.likes(); again[0] != two[0] {
		t.Errorf("after the executor was killed the logprobs are %v, before %v", again, two)
	}
}

// TestImpossibleRanks checks that serve ends with the figures when a model cannot be divided so.
func TestImpossibleRanks(t *testing.T) {
	for want, args := range map[string][]string{
		"3 ranks cannot divide 4 attention heads, 2 key-value heads and an MLP of 512 columns evenly": {"--tensor-parallel-size", "3", "--threads", "3"},
		"--tensor-parallel-size 2 is more than the 1 threads to divide":                               {"--tensor-parallel-size", "2", "--threads", "1"},
		"want a divisor of the 3 GPUs of cuda:0,1,2":                                                  {"--tensor-parallel-size", "2", "--device", "cuda:0,1,2"},
	} {
		cmd := command([]string{"TMPDIR=" + t.TempDir()}, append([]string{"serve", "--port", "0"}, args...)...)
		var output bytes.Buffer
		cmd.Stderr = &output
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != cli.ExitConfig || !strings.Contains(output.String(), want) {
			t.Errorf("serve %v: %v, want exit code %d and %q in\n%s", args, err, cli.ExitConfig, want, output.String())
		}
	}
}
