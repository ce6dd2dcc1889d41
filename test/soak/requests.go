package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// kind is a sort of request, and of what its answer must be.
type kind struct {
	name   string
	path   string
	body   func(*rand.Rand) string
	status int // that it must have; 200 unless set
	// whole says whether an answer is all of what was asked for.
	whole func(answer string) bool
	// same says that equal bodies have equal answers.
	same  bool
	leave bool // the client leaves before the answer
	frame bool // it is of the network
}

// texts is how many long texts there are: more than a few, and few enough that the tokenizers' memories of
// texts are soon as large as they get.
const texts = 64

// drawText is one of them, of n words.
func drawText(r *rand.Rand, n int) string { return seededText(uint64(r.IntN(texts)), n) }

// kinds are the mixed traffic: short and long prompts to score, generation, streams, prompt log-probabilities,
// batches, mistakes, clients that leave, and frames and gradients of a network.
var kinds = []kind{
	{name: "score", path: "/v1/completions", same: true, whole: hasChoices(1), body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"prompt":"The user %d likes","max_tokens":1,"temperature":0,"logprobs":5}`, r.IntN(8))
	}},
	{name: "score a profile", path: "/v1/completions", same: true, whole: hasChoices(1), body: func(r *rand.Rand) string {
		user, post := r.IntN(8), r.IntN(4)
		return fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"temperature":0,"logprobs":2,"allowed_token_ids":[274,270]}`,
			seededText(uint64(user), 600)+fmt.Sprintf("Post %d. Will the user like it? Answer Yes or No:", post))
	}},
	{name: "score a long text", path: "/v1/completions", whole: hasChoices(1), body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"temperature":0}`, drawText(r, 2000))
	}},
	{name: "chat", path: "/v1/chat/completions", same: true, whole: hasChoices(1), body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":"Is %d a prime?"}],"max_tokens":1,"temperature":0,"logprobs":true,"top_logprobs":3}`, r.IntN(8))
	}},
	{name: "batch", path: "/v1/completions", whole: hasChoices(4), body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"prompt":["a","b","c","user %d"],"max_tokens":1}`, r.IntN(1000))
	}},
	{name: "prompt log-probabilities", path: "/v1/completions", whole: hasChoices(1), body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"temperature":0,"echo":true,"logprobs":1}`, drawText(r, 100))
	}},
	{name: "generate", path: "/v1/completions", whole: hasChoices(1), body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"prompt":"Once %d","max_tokens":24,"allowed_token_ids":[300,301]}`, r.IntN(1000))
	}},
	{name: "stream", path: "/v1/completions", whole: func(answer string) bool { return strings.HasSuffix(answer, "data: [DONE]\n\n") }, body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"prompt":"Twice %d","max_tokens":24,"stream":true,"allowed_token_ids":[300,301]}`, r.IntN(1000))
	}},
	{name: "tokenize", path: "/tokenize", whole: acceptAnything, body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"prompt":%q}`, drawText(r, 300))
	}},
	{name: "mistake", path: "/v1/completions", status: 400, whole: acceptAnything, body: func(r *rand.Rand) string {
		return []string{`{"prompt":`, `{"prompt":"a","max_tokens":-1}`, `{"prompt":[99999999]}`, `{"prompt":"a","temperature":"hot"}`}[r.IntN(4)]
	}},
	{name: "too long", path: "/v1/completions", status: 400, whole: acceptAnything, body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"prompt":%q,"max_tokens":1}`, seededText(uint64(r.IntN(2)), 40_000))
	}},
	{name: "leave", path: "/v1/completions", leave: true, whole: acceptAnything, body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"prompt":%q,"max_tokens":200,"stream":%v}`, drawText(r, 200), r.IntN(2) == 0)
	}},
	{name: "frame", path: inferPath, frame: true, same: true, whole: hasOutput, body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"inputs":[%s]}`, drawFrameInput(r))
	}},
	{name: "gradient", path: inferPath, frame: true, same: true, whole: hasOutput, body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"inputs":[%s,{"name":"seed:mean","datatype":"FP32","shape":[1,4,1,1],"data":[1,-1,%d,2]}],"outputs":[{"name":"gradient:image"}]}`, drawFrameInput(r), r.IntN(2))
	}},
	{name: "frame of a wrong size", path: inferPath, frame: true, status: 400, whole: acceptAnything, body: func(*rand.Rand) string {
		return `{"inputs":[{"name":"image","datatype":"FP32","shape":[1,3,1,1],"data":[1,2,3]}]}`
	}},
	{name: "leave a frame", path: inferPath, frame: true, leave: true, whole: acceptAnything, body: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"inputs":[%s]}`, drawFrameInput(r))
	}},
}

const inferPath = "/v2/models/" + networkName + "/infer"

// drawFrameInput is an input, one of eight pictures.
func drawFrameInput(r *rand.Rand) string {
	var b strings.Builder
	seed := r.IntN(8)
	for i := range 3 * side * side {
		fmt.Fprintf(&b, ",%d", (seed*7+i*i)%251)
	}
	return fmt.Sprintf(`{"name":"image","datatype":"FP32","shape":[1,3,%d,%d],"data":[%s]}`, side, side, b.String()[1:])
}

// hasOutput says that an answer has one, with all of its elements.
func hasOutput(answer string) bool {
	var parsed struct {
		Outputs []struct {
			Shape []int
			Data  []float64
		}
	}
	if json.Unmarshal([]byte(answer), &parsed) != nil || len(parsed.Outputs) != 1 {
		return false
	}
	n := 1
	for _, d := range parsed.Outputs[0].Shape {
		n *= d
	}
	return n == len(parsed.Outputs[0].Data)
}

// weights is how often each of kinds is asked; the rest is left to the first.
var weights = map[string]int{
	"score": 30, "score a profile": 20, "score a long text": 2, "chat": 10, "batch": 6, "prompt log-probabilities": 4,
	"generate": 4, "stream": 4, "tokenize": 4, "mistake": 4, "too long": 1, "leave": 4,
	"frame": 20, "gradient": 8, "frame of a wrong size": 2, "leave a frame": 2,
}

// drawKind draws a kind; those of the network if there are frames.
func drawKind(r *rand.Rand, frames bool) *kind {
	all := 0
	for i := range kinds {
		if frames || !kinds[i].frame {
			all += weights[kinds[i].name]
		}
	}
	n := r.IntN(all)
	for i := range kinds {
		if kinds[i].frame && !frames {
			continue
		}
		if n -= weights[kinds[i].name]; n < 0 {
			return &kinds[i]
		}
	}
	return &kinds[0]
}

// seededText is a text of n words, the same for the same seed.
func seededText(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for range n {
		b.WriteString([]string{"sailing ", "chess ", "the ", "user ", "likes ", "a ", "week ", "of ", "finance ", "and "}[r.IntN(10)])
	}
	return b.String()
}

func acceptAnything(string) bool { return true }

// hasChoices says that an answer has n of them, each finished.
func hasChoices(n int) func(string) bool {
	return func(answer string) bool {
		var parsed struct {
			Choices []struct {
				Finish string `json:"finish_reason"`
			}
		}
		if json.Unmarshal([]byte(answer), &parsed) != nil || len(parsed.Choices) != n {
			return false
		}
		for _, c := range parsed.Choices {
			if c.Finish == "" {
				return false
			}
		}
		return true
	}
}

// content is what must be equal in answers to equal requests.
var content = regexp.MustCompile(`"choices":.*"finish_reason"|"outputs":.*`)
