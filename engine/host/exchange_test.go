package host

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// exchanging is a host of a model "n", with what to ask it, and a and b that it is to be by turns.
type exchanging struct {
	*Host
	t    *testing.T
	item wire.RunItem
	read func(wire.ItemResult) any // what was answered
	a, b Model

	was wire.ModelInfo // as the scheduler was told last
}

// eachExchanged runs a test for each kind of model that can be exchanged, which is not loaded.
func eachExchanged(t *testing.T, test func(t *testing.T, h *exchanging)) {
	t.Run("network", func(t *testing.T) { test(t, openPictures(t)) })
	t.Run("encoder", func(t *testing.T) { test(t, openTexts(t)) })
}

func openPictures(t *testing.T) *exchanging {
	t.Helper()
	o, blobs := testOptions(), &runnertest.Memory{}
	o.Blobs, o.CacheDir = blobs, t.TempDir()
	var raw []byte
	for i := range 3 * 10 * 12 {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(math.Cos(float64(i)))))
	}
	blob, err := blobs.Put(raw)
	if err != nil {
		t.Fatal(err)
	}
	in := engine.Ref{Name: "image", Type: engine.FP32, Shape: []int{1, 3, 10, 12}, Blob: blob}
	e := &exchanging{t: t, item: wire.RunItem{Work: &wire.TensorItem{Tensors: engine.Tensors{Inputs: []engine.Ref{in}, Frames: 1}}}}
	e.a, e.b = Model{Name: "n", Path: writeNetwork(t, filter(7))}, Model{Name: "n", Path: writeNetwork(t, filter(8))}
	e.read = func(r wire.ItemResult) any {
		raw := make([]byte, 4*4*5*6)
		if err := blobs.Read(r.Output.(*engine.TensorOutput).Outputs[0].Blob, raw); err != nil {
			t.Fatal(err)
		}
		return raw
	}
	e.Host = open(t, o, []Model{e.a})
	return e
}

func openTexts(t *testing.T) *exchanging {
	t.Helper()
	item := &wire.TokenItem{Ask: engine.Ask{Pool: engine.PoolMean}}
	for i := range 60 {
		item.Tokens = append(item.Tokens, engine.TokenID(7*i%200))
	}
	e := &exchanging{t: t, item: wire.RunItem{Work: item}}
	e.a = Model{Name: "n", Path: write(t, textsConfig, 7), Prompts: Prompts{MaxLen: 100}}
	e.b = Model{Name: "n", Path: write(t, textsConfig, 8), Prompts: Prompts{MaxLen: 100}}
	e.read = func(r wire.ItemResult) any { return r.Output.(*engine.TokenOutput).Vector }
	e.Host = open(t, testOptions(), []Model{e.a})
	return e
}

func (h *exchanging) begin() executor.Pass {
	h.t.Helper()
	p, err := h.Begin(&wire.Run{Model: "n", Items: []wire.RunItem{h.item}})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// end ends a pass, and returns what the model has answered.
func (h *exchanging) end(p executor.Pass) any {
	h.t.Helper()
	defer p.Close()
	for done := p.Share() == 1; !done; {
		var err error
		if done, err = p.Step(); err != nil {
			h.t.Fatal(err)
		}
	}
	r := p.Results()[0]
	if r.Err != nil {
		h.t.Fatal(r.Err)
	}
	return h.read(r)
}

func (h *exchanging) ask() any { return h.end(h.begin()) }

// beginAndPause begins a pass, which is at a boundary behind its first step if there is one.
func (h *exchanging) beginAndPause() executor.Pass {
	h.t.Helper()
	p := h.begin()
	for done := false; !done; done = done || p.Boundary() {
		var err error
		if done, err = p.Step(); err != nil {
			h.t.Fatal(err)
		}
	}
	return p
}

// change makes the models those given call by call, as an executor does, while passes go on: one that is at a boundary
// with each call answers as before, and so does the model until the last call.
func (h *exchanging) change(before any, models ...Model) (calls int) {
	h.t.Helper()
	h.Ahead(h.t.Context(), models)
	for again := true; again; calls++ {
		open := h.beginAndPause()
		again = h.SetModels(models)
		info := infoOf(h.t, h.Host, "n")
		if info.Reason != "" || calls > 100 {
			h.t.Fatalf("after call %d: %+v", calls, info)
		}
		for _, w := range info.Weights {
			if !h.Info().Weights[w].Resident {
				h.t.Fatalf("after call %d: piece %d is not there", calls, w)
			}
		}
		if got := h.ask(); again && !reflect.DeepEqual(got, before) {
			h.t.Fatalf("after call %d the model answers otherwise", calls)
		}
		if got := h.end(open); !reflect.DeepEqual(got, before) {
			h.t.Fatalf("a pass that was open at call %d answers otherwise", calls)
		}
	}
	return calls
}

// tell is what the scheduler does once it is told of the models: it has dropped what the model had and has no more.
func (h *exchanging) tell() {
	h.t.Helper()
	now := infoOf(h.t, h.Host, "n")
	h.Drop(slices.DeleteFunc(h.was.Weights, func(w uint32) bool { return slices.Contains(now.Weights, w) }))
	h.was = now
}

// TestModelIsExchangedBetweenPasses: a model that is to be another answers until the other is all there, at every moment one or
// the other; a pass that has begun ends with what it began with, and then its memory is free. There and back it takes no
// more memory, and the pieces that the scheduler hears of are there.
func TestModelIsExchangedBetweenPasses(t *testing.T) {
	eachExchanged(t, func(t *testing.T, h *exchanging) {
		loadAll(t, h.Host, "n")
		first, bytes, print := h.ask(), h.store.Bytes(), infoOf(t, h.Host, "n").Fingerprint
		open := h.beginAndPause()
		h.change(first, h.b)
		if infoOf(t, h.Host, "n").Fingerprint == print {
			t.Fatal("the model is what it was")
		}
		second := h.ask()
		if reflect.DeepEqual(second, first) || h.store.Bytes() != 2*bytes {
			t.Errorf("the answer is as before, or %d bytes are held while a pass is open, want %d", h.store.Bytes(), 2*bytes)
		}
		if !reflect.DeepEqual(h.end(open), first) {
			t.Error("the pass that was open answers otherwise")
		}
		if h.store.Bytes() != bytes {
			t.Errorf("%d bytes are held after the last pass, want %d", h.store.Bytes(), bytes)
		}
		for range 3 {
			h.change(second, h.a)
			h.change(first, h.b)
		}
		if !reflect.DeepEqual(h.ask(), second) || h.store.Bytes() != bytes {
			t.Errorf("other answers after some rounds, or %d bytes", h.store.Bytes())
		}
	})
}

// TestThousandExchanges: positions of pieces are those of three models at the most, whose pieces are there whenever the
// scheduler hears of them: the one, the next, and one before whose pieces it may have dropped yet.
func TestThousandExchanges(t *testing.T) {
	eachExchanged(t, func(t *testing.T, h *exchanging) {
		rounds := 1000
		if infoOf(t, h.Host, "n").Tokens != nil {
			rounds = 50 // which takes as long
		}
		loadAll(t, h.Host, "n")
		h.was = infoOf(t, h.Host, "n")
		pieces, answers := len(h.Info().Weights), [2]any{h.ask()}
		h.change(answers[0], h.b)
		answers[1] = h.ask()
		for i := range rounds {
			next := []Model{h.a, h.b}[i%2]
			for h.SetModels([]Model{next}) {
			}
			info := h.Info()
			if len(info.Weights) > 3*pieces {
				t.Fatalf("after %d exchanges the scheduler is told of %d pieces, at first of %d", i, len(info.Weights), pieces)
			}
			for _, w := range info.Models[0].Weights {
				if !info.Weights[w].Resident {
					t.Fatalf("after %d exchanges piece %d is not there", i, w)
				}
			}
			h.tell()
			if got := h.ask(); !reflect.DeepEqual(got, answers[i%2]) {
				t.Fatalf("after %d exchanges the model answers otherwise", i)
			}
		}
	})
}

// TestLateDrop: what the scheduler has dropped of a model that is another now is no piece of that one, however late it comes.
func TestLateDrop(t *testing.T) {
	eachExchanged(t, func(t *testing.T, h *exchanging) {
		loadAll(t, h.Host, "n")
		first, old := h.ask(), infoOf(t, h.Host, "n").Weights
		h.change(first, h.b)
		second := h.ask()
		h.change(second, h.a)
		h.Drop(old)
		if got := h.ask(); !reflect.DeepEqual(got, first) {
			t.Error("the model answers otherwise")
		}
	})
}

// TestExchangeForWhatCannotBeOpened: files that are no model, or none, leave the model as it is, and other models are set.
func TestExchangeForWhatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.onnx")
	for _, file := range []string{broken, filepath.Join(dir, "config.json")} {
		if err := os.WriteFile(file, []byte("no model"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	eachExchanged(t, func(t *testing.T, h *exchanging) {
		loadAll(t, h.Host, "n")
		first, other := h.ask(), h.b
		other.Name = "other"
		for _, path := range []string{broken, dir, "/no/where.onnx", "/no/where"} {
			h.change(first, Model{Name: "n", Path: path}, other)
			if got := h.ask(); !reflect.DeepEqual(got, first) || infoOf(t, h.Host, "other").Reason != "" {
				t.Errorf("%s: the model answers otherwise, or the other is %+v", path, infoOf(t, h.Host, "other"))
			}
		}
	})
}

// TestExchangeOfWhatIsNotLoaded: a model that is not there is another at once, and is loaded when that is asked for.
func TestExchangeOfWhatIsNotLoaded(t *testing.T) {
	eachExchanged(t, func(t *testing.T, h *exchanging) {
		h.Info()
		for calls := 0; h.SetModels([]Model{h.b}); calls++ {
			if calls > 3 {
				t.Fatal("it does not end")
			}
		}
		if h.store.Bytes() != 0 {
			t.Errorf("%d bytes were loaded", h.store.Bytes())
		}
		loadAll(t, h.Host, "n")
		h.ask()
	})
}
