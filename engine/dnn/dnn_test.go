package dnn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// blobs is Blobs within a test.
type blobs map[string][]byte

func (b blobs) Put(data []byte) (string, error) {
	name := fmt.Sprint(len(b))
	b[name] = slices.Clone(data)
	return name, nil
}

func (b blobs) Read(name string, dst []byte) error {
	if data, ok := b[name]; !ok || len(data) != len(dst) {
		return fmt.Errorf("no blob %q of %d bytes", name, len(dst))
	}
	copy(dst, b[name])
	return nil
}

// pictures is a convolution over pictures of any size, or of a fixed one, and its mean; weights differ with salt.
func pictures(batch, height, width any, salt float64) onnxtest.Graph {
	kernel := make([]float64, 4*3*3*3)
	for i := range kernel {
		kernel[i] = math.Sin(salt + float64(i))
	}
	return onnxtest.Graph{
		Inputs:    []onnxtest.Value{{Name: "image", Type: onnxtest.Float32, Dims: []any{batch, 3, height, width}}},
		Outputs:   []onnxtest.Value{{Name: "map", Type: onnxtest.Float32, Dims: []any{batch, 4, height, width}}, {Name: "mean", Type: onnxtest.Float32, Dims: []any{batch, 4, 1, 1}}},
		Constants: []onnxtest.Tensor{onnxtest.Floats("w", []int{4, 3, 3, 3}, kernel...)},
		Nodes: []onnxtest.Node{
			{Op: "Conv", In: []string{"image", "w"}, Out: []string{"c"}, Attrs: map[string]any{"pads": []int{1, 1, 1, 1}}},
			{Op: "Relu", In: []string{"c"}, Out: []string{"map"}},
			{Op: "GlobalAveragePool", In: []string{"map"}, Out: []string{"mean"}},
		},
	}
}

func writeFile(t testing.TB, g onnxtest.Graph) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "n.onnx")
	if err := os.WriteFile(file, onnxtest.File(17, g), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t testing.TB, file string, o Options) *Network {
	t.Helper()
	n, err := Read(file, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// opened is a loaded model with memory to compute in.
func opened(t testing.TB, st *store.Store, g onnxtest.Graph, o Options) (*Model, blobs) {
	t.Helper()
	b := blobs{}
	m, err := Open(read(t, writeFile(t, g), o), st, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	w, err := NewWorkspace(st.Backend(), m.WorkBytes())
	if err == nil {
		err = m.Use(w)
	}
	for i := range m.Chunks() {
		err = errors.Join(err, m.LoadChunk(i))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, b
}

// TestStateOfOneBatch: where no size goes for all free dimensions, those of inputs behind the first are 1, as is the
// batch of a state.
func TestStateOfOneBatch(t *testing.T) {
	n := read(t, writeFile(t, onnxtest.Graph{
		Inputs: []onnxtest.Value{
			{Name: "sound", Type: onnxtest.Float32, Dims: []any{1, 1, "samples"}}, {Name: "state", Type: onnxtest.Float32, Dims: []any{2, "", 4}},
		},
		Outputs: []onnxtest.Value{{Name: "filtered", Type: onnxtest.Float32, Dims: []any{1, 1, "left"}}, {Name: "next", Type: onnxtest.Float32, Dims: []any{3, 1, 4}}},
		Constants: []onnxtest.Tensor{
			onnxtest.Floats("w", []int{1, 1, 8}, make([]float64, 8)...), onnxtest.Floats("more", []int{1, 1, 4}, make([]float64, 4)...),
		},
		Nodes: []onnxtest.Node{
			{Op: "Conv", In: []string{"sound", "w"}, Out: []string{"filtered"}},
			{Op: "Concat", In: []string{"state", "more"}, Out: []string{"next"}, Attrs: map[string]any{"axis": 0}},
		},
	}), Options{})
	if shapes := n.inputShapes(1); !slices.Equal(shapes["sound"], []int{1, 1, 256}) || !slices.Equal(shapes["state"], []int{2, 1, 4}) {
		t.Errorf("planned for %v", shapes)
	}
	if spec := n.limits.Inputs[1]; !slices.Equal(spec.Shape, []int{2, -1, 4}) {
		t.Errorf("the state may be %v", spec.Shape)
	}
}

// frame is an item of a picture whose values differ with salt.
func (b blobs) frame(salt float64, shape ...int) wire.RunItem {
	r := engine.Ref{Name: "image", Type: engine.FP32, Shape: shape}
	n, _ := r.Bytes()
	raw := make([]byte, 0, n)
	for i := range n / 4 {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(math.Cos(salt*float64(i+1)))))
	}
	r.Blob, _ = b.Put(raw)
	return wire.RunItem{Work: &wire.TensorItem{Tensors: engine.Tensors{Inputs: []engine.Ref{r}, Frames: 1}}}
}

// results runs items through a pass.
func results(t testing.TB, m *Model, items ...wire.RunItem) []wire.ItemResult {
	t.Helper()
	p, err := m.Begin(&wire.Run{Items: items})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	return p.Results()
}

// TestInputLimitsFollowTheFile: what the file leaves open may be any, and a batch where it can; a size that is chosen is the model's.
func TestInputLimitsFollowTheFile(t *testing.T) {
	for _, c := range []struct {
		g    onnxtest.Graph
		o    Options
		want string
	}{
		{pictures("n", "h", "w", 0), Options{}, "image [-1 3 -1 -1] map [-1 4 -1 -1] mean [-1 4 1 1]"},
		{pictures(1, 8, 10, 0), Options{}, "image [-1 3 8 10] map [-1 4 8 10] mean [-1 4 1 1]"},
		{pictures(1, 8, 10, 0), Options{Height: 16, Width: 12}, "image [-1 3 16 12] map [-1 4 16 12] mean [-1 4 1 1]"},
		{pictures(2, 8, 10, 0), Options{}, "image [2 3 8 10] map [2 4 8 10] mean [2 4 1 1]"},
	} {
		l := read(t, writeFile(t, c.g), c.o).limits
		var got []string
		for _, s := range slices.Concat(l.Inputs, l.Outputs) {
			got = append(got, s.Name, fmt.Sprint(s.Shape))
			if s.Type != engine.FP32 {
				t.Errorf("%s is %v", s.Name, s.Type)
			}
		}
		if strings.Join(got, " ") != c.want || l.Backward == 0 {
			t.Errorf("%v, %v; want %s and gradients", got, l.Backward, c.want)
		}
	}
}

// TestManyShapes: more shapes than plans are kept, in turn, each with the same result every time; a shape that needs
// too much memory is refused with both figures and leaves the others.
func TestManyShapes(t *testing.T) {
	m, b := opened(t, store.New(ref.New()), pictures("n", "h", "w", 1), Options{Height: 16, Width: 16, WorkBytes: 1 << 20})
	item := func(i int) wire.RunItem { return b.frame(float64(i), 1+i%3, 3, 5+i, 7+i) }
	answer := func(r wire.ItemResult) string {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		var all string
		for _, ref := range r.Output.(*engine.TensorOutput).Outputs {
			all += fmt.Sprintf("%s %v %x ", ref.Name, ref.Shape, b[ref.Blob])
		}
		return all
	}
	want := map[int]string{}
	for round := range 2 {
		for i := range maxPlans + 4 {
			got := answer(results(t, m, item(i))[0])
			if round == 0 {
				want[i] = got
			} else if got != want[i] {
				t.Fatalf("shape %d gives %s, and before %s", i, got, want[i])
			}
		}
	}
	if n := len(m.plans.list); n > maxPlans {
		t.Errorf("%d plans are kept", n)
	}
	found := results(t, m, item(3), b.frame(1, 1, 3, 500, 500), item(4))
	if answer(found[0]) != want[3] || answer(found[2]) != want[4] {
		t.Error("items beside one that is too large differ")
	}
	if err := found[1].Err; err == nil || err.Code != engine.CodeTooLong || !strings.Contains(err.Message, "1 MiB") || !strings.Contains(err.Message, "[1 3 500 500]") {
		t.Errorf("too large a picture: %v", err)
	}
	if pass, err := m.Begin(&wire.Run{Items: make([]wire.RunItem, maxPassItems+1)}); err == nil {
		pass.Close()
		t.Error("a pass of too many items was begun")
	}
	for _, c := range m.plans.list {
		if c.users != 0 {
			t.Errorf("a plan has %d users when no pass is open", c.users)
		}
	}
}

// TestSharedWeights: networks of equal weights have them once, whatever sizes they are planned for.
func TestSharedWeights(t *testing.T) {
	st := store.New(ref.New())
	a, _ := opened(t, st, pictures("n", "h", "w", 1), Options{Height: 16, Width: 16})
	one := st.Bytes()
	b, _ := opened(t, st, pictures(1, 20, 30, 1), Options{})
	if one == 0 || st.Bytes() != one || a.Chunks()[0].Key != b.Chunks()[0].Key {
		t.Errorf("%d bytes of one network, %d of two", one, st.Bytes())
	}
	other, _ := opened(t, st, pictures(1, 20, 30, 2), Options{})
	if st.Bytes() != 2*one || other.Chunks()[0].Key == a.Chunks()[0].Key {
		t.Errorf("%d bytes with another network's, %d of one", st.Bytes(), one)
	}
	for _, m := range []*Model{a, b, other} {
		for i := range m.Chunks() {
			m.DropChunk(i)
		}
		if m.Ready() {
			t.Error("a network without weights is ready")
		}
	}
	if st.Bytes() != 0 {
		t.Errorf("%d bytes are held after all was dropped", st.Bytes())
	}
}

// TestPlansAreMadeBeside: the plans of new shapes are made by other goroutines while passes go on, each once; what cannot
// be planned is refused alone; and of more shapes than are kept those used last are.
func TestPlansAreMadeBeside(t *testing.T) {
	m, b := opened(t, store.New(ref.New()), pictures("n", "h", "w", 1), Options{Height: 16, Width: 16})
	begin := func(items ...wire.RunItem) *Pass {
		p, err := m.Begin(&wire.Run{Items: items})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	known := b.frame(1, 1, 3, 16, 16)
	if p := begin(known); p.Prepare() != nil {
		t.Error("the network's own shape is planned again")
	} else {
		p.Close()
	}
	large := wire.RunItem{Work: &wire.TensorItem{Tensors: engine.Tensors{Inputs: []engine.Ref{{Name: "image", Type: engine.FP32, Shape: []int{1, 3, 2048, 2048}}}}}}
	var group sync.WaitGroup
	var passes []*Pass
	var prepares []func() // two of a shape: the first one would leave the second one nothing to prepare
	for i := range 3 * maxPlans {
		p := begin(b.frame(1, 1, 3, 8+i/2, 8), large)
		prepare := p.Prepare()
		if prepare == nil || p.Share() != 0 || !p.Boundary() {
			t.Fatalf("pass %d is prepared already: share %v, at a boundary %v", i, p.Share(), p.Boundary())
		}
		prepares, passes = append(prepares, prepare), append(passes, p)
	}
	for _, prepare := range prepares {
		group.Go(prepare)
	}
	want := results(t, m, known)
	group.Wait()
	for i, p := range passes {
		if p.Prepare() != nil {
			t.Errorf("pass %d is to be prepared again", i)
		}
		for done := false; !done; {
			var err error
			if done, err = p.Step(); err != nil {
				t.Fatal(err)
			}
		}
		if r := p.Results(); r[0].Err != nil || r[1].Err == nil || r[1].Err.Code != engine.CodeTooLong {
			t.Errorf("pass %d: %+v", i, r)
		}
	}
	if used := 3 * maxPlans / 2; len(m.plans.list) < used {
		t.Errorf("%d plans are kept while passes use %d", len(m.plans.list), used)
	}
	for _, p := range passes {
		p.Close()
	}
	if len(m.plans.list) != maxPlans {
		t.Errorf("%d plans are kept", len(m.plans.list))
	}
	for i, ref := range results(t, m, known)[0].Output.(*engine.TensorOutput).Outputs {
		if !bytes.Equal(b[ref.Blob], b[want[0].Output.(*engine.TensorOutput).Outputs[i].Blob]) {
			t.Errorf("output %s is another one", ref.Name)
		}
	}
}

// TestPassesMayNotMix: a pass that is half computed keeps its area from other ones, but for nested passes.
func TestPassesMayNotMix(t *testing.T) {
	m, b := opened(t, store.New(ref.New()), pictures("n", "h", "w", 1), Options{Height: 64, Width: 64})
	begin := func(nested bool) *Pass {
		p, err := m.Begin(&wire.Run{Nested: nested, Items: []wire.RunItem{b.frame(1, 1, 3, 64, 64)}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	outer, second, nested := begin(false), begin(false), begin(true)
	m.work.running[ownArea] = outer
	if outer.Boundary() || !second.Boundary() {
		t.Error("a pass that is half computed is at a boundary, or one that is not begun is at none")
	}
	if _, err := second.Step(); err == nil {
		t.Error("two passes compute in one area")
	}
	if _, err := nested.Step(); err != nil {
		t.Error(err)
	}
	outer.Close()
	if _, err := second.Step(); err != nil {
		t.Errorf("after the other pass was dropped: %v", err)
	}
	second.Close()
	nested.Close()
	if m.work.running != [areas]any{} {
		t.Error("areas are in use after all passes were closed")
	}
}

// TestTime: passes of noise take time, of the network's own frame, of several, and with gradients, and of other sizes
// where it takes any; those of too many frames are refused as too large.
func TestTime(t *testing.T) {
	for _, c := range []struct {
		height, width any
		want          []string
	}{
		{16, 16, []string{"1 x 1 false", "4 x 1 false", "1 x 1 true"}},
		{"h", "w", []string{"1 x 1 false", "4 x 1 false", "1 x 4 false", "1 x 0.25 false", "1 x 1 true"}},
		{16, "w", []string{"1 x 1 false", "4 x 1 false", "1 x 2 false", "1 x 0.5 false", "1 x 1 true"}},
	} {
		m, _ := opened(t, store.New(ref.New()), pictures(1, c.height, c.width, 1), Options{WorkBytes: 64 << 20})
		var got []string
		for _, trial := range m.Trials() {
			got = append(got, fmt.Sprintf("%d x %v %v", trial.Frames, trial.Size, trial.Backward))
			if trial.Size > 1 {
				continue // slow here
			}
			p, err := m.Time(trial)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				for done := false; !done; {
					if done, err = p.Advance(); err != nil {
						t.Fatal(err)
					}
					if whole := p.Whole(); whole < p.Took {
						t.Errorf("a pass of %v takes %v in all", p.Took, whole)
					}
				}
				if p.Took <= 0 || p.Step <= 0 || p.Step > p.Took {
					t.Errorf("longest step %v of %v", p.Step, p.Took)
				}
			}
			p.Close()
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %v x %v: trials %q, want %q", c.height, c.width, got, c.want)
		}
	}
	m, _ := opened(t, store.New(ref.New()), pictures(1, 16, 16, 1), Options{})
	var refused *engine.Error
	if _, err := m.Time(Trial{shapes: m.network.inputShapes(10_000)}); !errors.As(err, &refused) || refused.Code != engine.CodeTooLong {
		t.Errorf("10,000 frames: %v", err)
	}
}

// TestTimedBesideNested: a nested pass between two steps of one that is timed is computed as ever, and costs that one
// what it had done.
func TestTimedBesideNested(t *testing.T) {
	m, b := opened(t, store.New(ref.New()), pictures(1, 64, 64, 1), Options{})
	item := b.frame(1, 1, 3, 64, 64)
	want := results(t, m, item)
	p, err := m.Time(m.Trials()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.inside, m.work.running[nestedArea] = true, p // as after a first step that was not the last
	nested, err := m.Begin(&wire.Run{Nested: true, Items: []wire.RunItem{item}})
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		if done, err = nested.Step(); err != nil {
			t.Fatal(err)
		}
	}
	for i, ref := range nested.Results()[0].Output.(*engine.TensorOutput).Outputs {
		if !bytes.Equal(b[ref.Blob], b[want[0].Output.(*engine.TensorOutput).Outputs[i].Blob]) {
			t.Errorf("output %s is another one", ref.Name)
		}
	}
	nested.Close()
	for done := false; !done; {
		if done, err = p.Advance(); err != nil {
			t.Fatal(err)
		}
	}
	if p.Restarts != 1 || p.Took <= 0 {
		t.Errorf("%d restarts, %v for the pass after them", p.Restarts, p.Took)
	}
}

// TestFilesChange: a file that is written to is not loaded, one that is replaced is another one, and both are named.
func TestFilesChange(t *testing.T) {
	file := writeFile(t, pictures(1, 16, 16, 1))
	n := read(t, file, Options{})
	m, err := Open(n, store.New(ref.New()), blobs{})
	if err != nil {
		t.Fatal(err)
	}
	if n.Unchanged() != nil || n.Current() != nil {
		t.Error("a file has changed that has not")
	}
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := m.LoadChunk(0); err == nil || !strings.Contains(err.Error(), file) || m.Ready() {
		t.Errorf("a file that was written to: %v", err)
	}
	if err := os.Rename(writeFile(t, pictures(1, 16, 16, 2)), file); err != nil {
		t.Fatal(err)
	}
	if err := n.Current(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that was replaced: %v", err)
	}
}

// TestFile: a path is a network's by its name, or by what is in the directory.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one/a.onnx", "two/a.onnx", "two/model.onnx", "many/a.onnx", "many/b.onnx", "llm/config.json", "llm/model.onnx", "none/x.txt"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"one": "one/a.onnx", "one/a.onnx": "one/a.onnx", "two": "two/model.onnx", "missing.ONNX": "missing.ONNX", "many": "", "llm": "", "none": "", "none/x.txt": ""} {
		file, ok := File(filepath.Join(dir, path))
		if ok != (want != "") || ok && file != filepath.Join(dir, want) {
			t.Errorf("%s: %q, %v", path, file, ok)
		}
	}
}
