package client

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// detector is a model that takes tensors.
func detector() wire.Served {
	return wire.Served{Name: "detector", State: wire.ModelReady, Executors: 1, Tensors: &wire.TensorLimits{
		Inputs:   []wire.TensorSpec{{Name: "image", Type: engine.FP32, Shape: []int{-1, 3, -1, 416}}, {Name: "scale", Type: engine.FP32, Shape: []int{-1, 2}}},
		Outputs:  []wire.TensorSpec{{Name: "boxes", Type: engine.FP32, Shape: []int{-1, -1, 4}}},
		Backward: 2,
	}}
}

// TestVectorsAreChecked: a vector is asked of a model that gives one, and no token of one that gives none.
func TestVectorsAreChecked(t *testing.T) {
	decoder := wire.TokenLimits{VocabSize: 10, MaxModelLen: 10, Hidden: 4}
	classifier := wire.TokenLimits{VocabSize: 10, MaxModelLen: 10, Hidden: 4, Labels: 2, VectorsOnly: true}
	for _, x := range []struct {
		name   string
		limits wire.TokenLimits
		ask    engine.Ask
		max    int
		want   string // in the error; empty for none
	}{
		{"a decoder's tokens", decoder, engine.Ask{}, 1, ""},
		{"a decoder's vector", decoder, engine.Ask{Pool: engine.PoolMean}, 0, ""},
		{"a decoder's labels", decoder, engine.Ask{Pool: engine.PoolLast, Head: true}, 0, "no classification head"},
		{"a classifier's labels", classifier, engine.Ask{Pool: engine.PoolLast, Head: true}, 0, ""},
		{"a classifier's tokens", classifier, engine.Ask{}, 1, "no LM head"},
		{"vectors of a model without", wire.TokenLimits{VocabSize: 10, MaxModelLen: 10}, engine.Ask{Pool: engine.PoolLast}, 0, "no vectors"},
	} {
		err := checkTokens(&engine.Tokens{IDs: []engine.TokenID{1}, Max: x.max, Ask: x.ask}, &x.limits)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.name, err, x.want)
		}
	}
}

// withDetector is a client of a pool of "demo", of 300 tokens, and the detector.
func withDetector() (*Client, *clienttest.Scheduler) {
	c, s := newClient(Config{}, nil)
	w := welcome(1)
	w.Served = append(w.Served, detector())
	c.Deliver(w)
	return c, s
}

func TestTokensAreChecked(t *testing.T) {
	c, _ := withDetector()
	id := func(part Part) *TokenError { return &TokenError{Part: part, ID: 300, Vocab: 300} }
	length := func(prompt, generate int) *LengthError {
		return &LengthError{Prompt: prompt, Generate: generate, Limit: 128}
	}
	ids := func(n int, last engine.TokenID) []engine.TokenID { return append(make([]engine.TokenID, n-1), last) }
	for _, x := range []struct {
		name string
		work engine.Tokens
		want error
	}{
		{"the last id and the longest prompt", engine.Tokens{IDs: ids(120, 299), Max: 8, Stop: ids(1, 299)}, nil},
		{"prompt", engine.Tokens{IDs: ids(5, 300), Max: 1}, id(PartPrompt)},
		{"stop", engine.Tokens{IDs: ids(5, 1), Stop: ids(2, 300)}, id(PartStop)},
		{"labels", engine.Tokens{IDs: ids(5, 1), Ask: engine.Ask{Labels: ids(2, 300)}}, id(PartLabels)},
		{"allowed", engine.Tokens{IDs: ids(5, 1), Ask: engine.Ask{Allowed: engine.NewTokenSet(ids(2, 300)...)}}, id(PartAllowed)},
		{"bias", engine.Tokens{IDs: ids(5, 1), Ask: engine.Ask{Bias: []engine.TokenBias{{ID: 300}}}}, id(PartBias)},
		{"bans", engine.Tokens{IDs: ids(5, 1), Ask: engine.Ask{Bans: []engine.Ban{{Tokens: ids(2, 300)}}}}, id(PartBans)},
		{"no prompt", engine.Tokens{Max: 1}, length(0, 1)},
		{"too long", engine.Tokens{IDs: ids(121, 1), Max: 8}, length(121, 8)},
		{"far too much", engine.Tokens{IDs: ids(1, 1), Max: math.MaxInt}, length(1, math.MaxInt)},
		{"less than nothing", engine.Tokens{IDs: ids(1, 1), Max: math.MinInt}, length(1, math.MinInt)},
	} {
		_, err := c.NewJob(engine.Job{Model: "demo", Work: &x.work}, time.Now(), NewResults(), 0)
		var token *TokenError
		var long *LengthError
		switch {
		case x.want == nil && err == nil:
		case errors.As(err, &token) && x.want.Error() == token.Error():
		case errors.As(err, &long) && x.want.Error() == long.Error():
		default:
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
	}
	_, err := c.NewJob(engine.Job{Model: "demo", Work: &engine.Tokens{IDs: ids(5, 1), Ask: engine.Ask{Bias: []engine.TokenBias{{ID: 7, Bias: float32(math.NaN())}}}}}, time.Now(), nil, 0)
	refused(t, err, engine.CodeBadTokens, "bias of token 7 is not a number")
}

// refused holds that err is an engine's error that says so.
func refused(t *testing.T, err error, code engine.Code, says string) {
	t.Helper()
	var e *engine.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, says) {
		t.Errorf("refused with %v, want %v that says %q", err, code, says)
	}
}

func TestTensorsAreChecked(t *testing.T) {
	c, _ := withDetector()
	good := func() *engine.Tensors {
		return &engine.Tensors{Frames: 2, Inputs: []engine.Ref{
			{Name: "scale", Type: engine.FP32, Shape: []int{2, 2}}, {Name: "image", Type: engine.FP32, Shape: []int{2, 3, 320, 416}},
		}}
	}
	for _, x := range []struct {
		says   string // empty: it is taken
		change func(w *engine.Tensors)
	}{
		{"", func(w *engine.Tensors) {}},
		{"", func(w *engine.Tensors) { w.Outputs = []string{"boxes"} }},
		{"input scale is missing", func(w *engine.Tensors) { w.Inputs = w.Inputs[1:] }},
		{`input "picture" is not one of the model's: image, scale`, func(w *engine.Tensors) { w.Inputs[0].Name = "picture" }},
		{"input image is given twice", func(w *engine.Tensors) { w.Inputs = append(w.Inputs, w.Inputs[1]) }},
		{"input image is of UINT8; the model takes FP32", func(w *engine.Tensors) { w.Inputs[1].Type = engine.Uint8 }},
		{"the shape [2 3 320 300]; the model takes [-1 3 -1 416]", func(w *engine.Tensors) { w.Inputs[1].Shape[3] = 300 }},
		{"the shape [2 3 0 416]", func(w *engine.Tensors) { w.Inputs[1].Shape[2] = 0 }},
		{"the shape [2 3 -1 416]", func(w *engine.Tensors) { w.Inputs[1].Shape[2] = -1 }},
		{"the shape []", func(w *engine.Tensors) { w.Inputs[1].Shape = nil }},
		{"input image has a batch of 1, and others one of 2", func(w *engine.Tensors) { w.Inputs[1].Shape[0] = 1 }},
		{`no output "masks"`, func(w *engine.Tensors) { w.Outputs = []string{"boxes", "masks"} }},
		{"of 0 frames", func(w *engine.Tensors) { w.Frames = 0 }},
		{"of NaN frames", func(w *engine.Tensors) { w.Frames = math.NaN() }},
		{"", func(w *engine.Tensors) { w.Grad = gradient([]int{2, 7, 4}) }},
		{"seed boxes has a batch of 3, and others one of 2", func(w *engine.Tensors) { w.Grad = gradient([]int{3, 7, 4}) }},
		{"seed boxes has the shape [2 7 5]", func(w *engine.Tensors) { w.Grad = gradient([]int{2, 7, 5}) }},
		{"a gradient needs a seed and an input; 0 and 1 are given", func(w *engine.Tensors) { w.Grad = gradient(nil); w.Grad.Seeds = nil }},
		{`to the input "boxes"`, func(w *engine.Tensors) { w.Grad = gradient([]int{2, 7, 4}); w.Grad.Inputs = []string{"boxes"} }},
	} {
		work := good()
		x.change(work)
		_, err := c.NewJob(engine.Job{Model: "detector", Work: work}, time.Now(), nil, 0)
		if x.says == "" && err != nil {
			t.Errorf("%+v: %v", work, err)
		} else if x.says != "" {
			refused(t, err, engine.CodeBadTokens, x.says)
		}
	}
	_, err := c.NewJob(engine.Job{Model: "demo", Work: good()}, time.Now(), nil, 0)
	refused(t, err, engine.CodeBadTokens, "the model demo takes tokens")
	_, err = c.NewJob(engine.Job{Model: "detector", Work: &engine.Tokens{IDs: []engine.TokenID{1}}}, time.Now(), nil, 0)
	refused(t, err, engine.CodeBadTokens, "the model detector takes tensors")
	_, err = c.NewJob(engine.Job{Model: "unheard of", Work: good()}, time.Now(), nil, 0)
	refused(t, err, engine.CodeUnavailable, "no executor serves unheard of yet")
}

func gradient(shape []int) *engine.Grad {
	return &engine.Grad{Seeds: []engine.Ref{{Name: "boxes", Type: engine.FP32, Shape: shape}}, Inputs: []string{"image"}}
}

// TestTensorJob holds that a job of tensors outlives a scheduler as one of tokens does, and ends with its output.
func TestTensorJob(t *testing.T) {
	c, s := withDetector()
	results := NewResults()
	j, err := c.NewJob(engine.Job{Model: "detector", Stream: "cam-1", Promised: true, Deadline: time.Second, Work: &engine.Tensors{Frames: 1, Inputs: []engine.Ref{
		{Name: "scale", Type: engine.FP32, Shape: []int{1, 2}, Blob: "a"}, {Name: "image", Type: engine.FP32, Shape: []int{1, 3, 320, 416}, Blob: "b"},
	}}}, time.Now(), results, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Submit("", []*Job{j}); err != nil {
		t.Fatal(err)
	}
	if n := c.JobsOf("detector"); n != 1 || c.JobsOf("demo") != 0 {
		t.Errorf("%d jobs of the detector, %d of demo", n, c.JobsOf("demo"))
	}
	c.Deliver(welcome(2))
	submits, _ := s.Seen()
	if len(submits) != 2 || submits[1].ID != submits[0].ID || submits[1].Work != submits[0].Work || !submits[1].Promised || submits[1].Stream != "cam-1" {
		t.Fatalf("submits %+v", submits)
	}
	out := &engine.TensorOutput{Outputs: []engine.Ref{{Name: "boxes", Blob: "c"}}}
	for range 2 { // the second is a stranger's
		c.Deliver(&wire.Result{Job: submits[1].ID, Output: out})
	}
	got, err := results.Next(t.Context(), nil)
	if err != nil || len(got) != 1 || got[0].Index != 4 || got[0].Result.Output != out || openJobs(c) != 0 || c.JobsOf("detector") != 0 {
		t.Errorf("got %+v, %v; %d open", got, err, openJobs(c))
	}
	if _, cancels := s.Seen(); len(cancels) != 0 {
		t.Errorf("cancelled %v", cancels)
	}
}
