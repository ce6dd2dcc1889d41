package host

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// pictures is a host of networks, with a picture to ask them about.
type pictures struct {
	*Host
	t     *testing.T
	blobs *runnertest.Memory
	item  wire.RunItem
}

func openPictures(t *testing.T, models ...Model) pictures {
	t.Helper()
	o, blobs := testOptions(), &runnertest.Memory{}
	o.Blobs, o.CacheDir = blobs, t.TempDir()
	h := open(t, o, models)
	var raw []byte
	for i := range 3 * 10 * 12 {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(math.Cos(float64(i)))))
	}
	blob, err := blobs.Put(raw)
	if err != nil {
		t.Fatal(err)
	}
	in := engine.Ref{Name: "image", Type: engine.FP32, Shape: []int{1, 3, 10, 12}, Blob: blob}
	return pictures{h, t, blobs, wire.RunItem{Work: &wire.TensorItem{Tensors: engine.Tensors{Inputs: []engine.Ref{in}, Frames: 1}}}}
}

func (h pictures) begin(name string) executor.Pass {
	h.t.Helper()
	p, err := h.Begin(&wire.Run{Model: name, Items: []wire.RunItem{h.item}})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// end ends a pass, and returns what the network has answered.
func (h pictures) end(p executor.Pass) []byte {
	h.t.Helper()
	defer p.Close()
	for done := false; !done; {
		var err error
		if done, err = p.Step(); err != nil {
			h.t.Fatal(err)
		}
	}
	r := p.Results()[0]
	if r.Err != nil {
		h.t.Fatal(r.Err)
	}
	raw := make([]byte, 4*4*5*6)
	if err := h.blobs.Read(r.Output.(*engine.TensorOutput).Outputs[0].Blob, raw); err != nil {
		h.t.Fatal(err)
	}
	return raw
}

// change sets the models call by call, as an executor does, and has the model answer between: as before until the last call.
func (h pictures) change(name string, models []Model, before []byte) (calls int) {
	h.t.Helper()
	h.Ahead(h.t.Context(), models)
	for again := true; again; calls++ {
		again = h.SetModels(models)
		info := infoOf(h.t, h.Host, name)
		if info.Reason != "" {
			h.t.Fatalf("after call %d: %+v", calls, info)
		}
		for _, w := range info.Weights {
			if !h.Info().Weights[w].Resident {
				h.t.Fatalf("after call %d: piece %d is not there", calls, w)
			}
		}
		if got := h.end(h.begin(name)); again && !reflect.DeepEqual(got, before) {
			h.t.Fatalf("after call %d the model answers otherwise", calls)
		}
	}
	return calls
}

// TestNetworkIsExchangedBetweenPasses: a network that is to be another answers until the other is all there, at every moment one
// or the other; a pass that has begun ends with what it began with, and then its memory is free. There and back it takes no
// more memory, and the pieces that the scheduler hears of are there.
func TestNetworkIsExchangedBetweenPasses(t *testing.T) {
	a, b := Model{Name: "n", Path: writeNetwork(t, filter(7))}, Model{Name: "n", Path: writeNetwork(t, filter(8))}
	h := openPictures(t, a)
	loadAll(t, h.Host, "n")
	first, bytes, print := h.end(h.begin("n")), h.store.Bytes(), infoOf(t, h.Host, "n").Fingerprint
	open := h.begin("n")
	if _, err := open.Step(); err != nil {
		t.Fatal(err)
	}
	h.change("n", []Model{b}, first)
	if infoOf(t, h.Host, "n").Fingerprint == print {
		t.Fatal("the network is what it was")
	}
	second := h.end(h.begin("n"))
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
		h.change("n", []Model{a}, second)
		h.change("n", []Model{b}, first)
	}
	if !reflect.DeepEqual(h.end(h.begin("n")), second) || h.store.Bytes() != bytes {
		t.Errorf("other answers after some rounds, or %d bytes", h.store.Bytes())
	}
}

// TestExchangeForWhatCannotBeOpened: a file that is no network, or none, leaves the network as it is, and other models are set.
func TestExchangeForWhatCannotBeOpened(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.onnx")
	if err := os.WriteFile(broken, []byte("no network"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, other := Model{Name: "n", Path: writeNetwork(t, filter(7))}, Model{Name: "other", Path: writeNetwork(t, filter(9))}
	h := openPictures(t, a)
	loadAll(t, h.Host, "n")
	first := h.end(h.begin("n"))
	for _, path := range []string{broken, "/no/where.onnx"} {
		next := []Model{{Name: "n", Path: path}, other}
		h.Ahead(t.Context(), next)
		for calls := 0; h.SetModels(next); calls++ {
			if calls > 10 {
				t.Fatal("it does not end")
			}
		}
		if got := h.end(h.begin("n")); !reflect.DeepEqual(got, first) || infoOf(t, h.Host, "other").Reason != "" {
			t.Errorf("%s: the network answers otherwise, or the other is %+v", path, infoOf(t, h.Host, "other"))
		}
	}
}

// TestExchangeOfWhatIsNotLoaded: a network that is not there is another at once, and is loaded when that is asked for.
func TestExchangeOfWhatIsNotLoaded(t *testing.T) {
	a, b := Model{Name: "n", Path: writeNetwork(t, filter(7))}, Model{Name: "n", Path: writeNetwork(t, filter(8))}
	h := openPictures(t, a)
	h.Info()
	for calls := 0; h.SetModels([]Model{b}); calls++ {
		if calls > 3 {
			t.Fatal("it does not end")
		}
	}
	if h.store.Bytes() != 0 {
		t.Errorf("%d bytes were loaded", h.store.Bytes())
	}
	loadAll(t, h.Host, "n")
	h.end(h.begin("n"))
}
