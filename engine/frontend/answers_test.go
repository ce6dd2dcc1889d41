package frontend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestPromptsAreScoredOnce holds that of n answers to a prompt one job scores it, and that all of them report the
// scores, in whatever order the jobs are answered, whole and as a stream.
func TestPromptsAreScoredOnce(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, order := range [][]int{{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {1, 2, 0, 4, 5, 3}} {
			synctest.Test(t, func(t *testing.T) {
				f, s := newFrontend(t, Config{}, nil)
				body := fmt.Sprintf(`{"prompt":["ab","cde"],"n":3,"max_tokens":2,"echo":true,"logprobs":1,"temperature":1,"stream":%v}`, stream)
				if !stream {
					body = strings.Replace(body, "{", `{"prompt_logprobs":1,`, 1)
				}
				done := start(f, newPost(body))
				synctest.Wait()
				submits, _ := s.Seen()
				scored := 0
				for _, m := range submits {
					if tokens(m).Ask.PromptLogprobs {
						scored++
					}
				}
				if len(submits) != 6 || scored != 2 {
					t.Fatalf("%d jobs, of which %d score their prompt", len(submits), scored)
				}
				for _, i := range order {
					for _, r := range replies(submits[i], byteIDs("xy")) {
						f.pool.Deliver(r)
						synctest.Wait()
					}
				}
				w := <-done
				if w.Code != http.StatusOK {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				texts, lists := [6]string{}, [6]int{}
				answers := []string{w.Body.String()}
				if stream {
					answers = strings.Split(strings.TrimSuffix(strings.ReplaceAll(w.Body.String(), "data: ", ""), "\n\n[DONE]\n\n"), "\n\n")
				}
				for _, text := range answers {
					var answer struct {
						Choices []struct {
							Index    int
							Text     string
							Logprobs completions.CompletionLogprobs
							Prompt   []json.RawMessage `json:"prompt_logprobs"`
						}
					}
					decodeBody(t, strings.NewReader(text), &answer)
					for _, c := range answer.Choices {
						texts[c.Index] += c.Text
						lists[c.Index] += len(c.Logprobs.Tokens)
						for k, p := range c.Logprobs.TokenLogprobs {
							if (p == nil) != (k == 0 && lists[c.Index] == len(c.Logprobs.Tokens)) {
								t.Errorf("choice %d: logprob %d is %v", c.Index, k, p)
							}
						}
						if n := len(c.Prompt); !stream && n != len(c.Logprobs.Tokens)-2 {
							t.Errorf("choice %d has %d prompt_logprobs", c.Index, n)
						}
					}
				}
				for i := range texts {
					want, list := "abxy", 5
					if i > 2 {
						want, list = "cdexy", 6
					}
					if texts[i] != want || lists[i] != list {
						t.Errorf("stream %v, order %v: choice %d has %q and %d logprobs", stream, order, i, texts[i], lists[i])
					}
				}
			})
		}
	}
}

// TestEqualAnswersAreOneJob holds that where all answers to a prompt are the same, they cost one.
func TestEqualAnswersAreOneJob(t *testing.T) {
	for _, c := range []struct {
		body, text string
		jobs       int
		stop       bool
	}{
		{`{"prompt":["a","b"],"n":3,"max_tokens":4,"temperature":0}`, "abcd", 2, false},
		{`{"prompt":["a","b"],"n":3,"max_tokens":9,"temperature":0,"stop":["cd"]}`, "ab", 2, true},
		{`{"prompt":["a","b"],"n":3,"max_tokens":0,"echo":true,"logprobs":1}`, "", 2, false},
		{`{"prompt":["a","b"],"n":3,"max_tokens":4,"temperature":0.1}`, "abcd", 6, false},
	} {
		f, s := newFrontend(t, Config{}, func(s *wire.Submit) []*wire.Result {
			r := say("abcdef", engine.FinishStop)(s)
			return r[:min(len(r), 5)]
		})
		var answer completions.Completion
		post(t, f, "/v1/completions", c.body, &answer)
		submits, cancels := s.Seen()
		if len(submits) != c.jobs || (len(cancels) == len(submits)) != c.stop || openJobs(f) != 0 || len(answer.Choices.Items) != 6 {
			t.Errorf("%s: %d jobs, cancelled %v, %d open, %d choices", c.body, len(submits), cancels, openJobs(f), len(answer.Choices.Items))
		}
		for i, choice := range answer.Choices.Items {
			if want := strings.TrimSuffix(choice.Text, c.text); choice.Index != i || !strings.HasSuffix(choice.Text, c.text) || len(want) > 1 {
				t.Errorf("%s: choice %d is %d, %q", c.body, i, choice.Index, choice.Text)
			}
		}
		w := do(f, http.MethodPost, "/v1/completions", strings.Replace(c.body, `{`, `{"stream":true,`, 1))
		for i := range 6 {
			if n := strings.Count(w.Body.String(), fmt.Sprintf(`"index":%d,`, i)); n == 0 {
				t.Errorf("%s: no event of choice %d in %s", c.body, i, w.Body)
			}
		}
	}
}
