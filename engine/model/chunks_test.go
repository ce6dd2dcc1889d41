package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/catalog"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

func openCheckpoint(t testing.TB, dir string) (weights.Config, *weights.Checkpoint) {
	t.Helper()
	config, err := weights.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return config, checkpoint
}

// openDir opens the checkpoint in dir for a store.
func openDir(t testing.TB, dir string, st *store.Store, opts Options) *Model {
	t.Helper()
	config, checkpoint := openCheckpoint(t, dir)
	m, err := Open(config, checkpoint, st, opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestChunksLoadAndDropInAnyOrder: a model is ready when all chunks are resident and there is a workspace, and
// answers with the bits of one that was loaded at once; what the store holds is what the chunks say.
func TestChunksLoadAndDropInAnyOrder(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		for _, name := range []string{"llama-bias", "qwen2", "qwen3-wide"} {
			dir := writeCheckpoint(t, name, 2, nil)
			item := wire.TokenItem{Tokens: goldenPrompt(50, 250), Ask: engine.Ask{Top: 20}}
			whole, err := Load(dir, b, bitsOptions)
			if err != nil {
				t.Fatal(err)
			}
			want := answer(t, whole, item)
			whole.Close()
			st := store.New(b)
			m := openDir(t, dir, st, bitsOptions)
			w, err := NewWorkspace(b, m.Plan())
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Use(w); err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for round := range 6 {
				for _, i := range random.Perm(len(m.Chunks())) {
					if m.Ready() {
						t.Errorf("%s is ready without chunk %d", name, i)
					}
					if _, err := m.Begin(&wire.Run{Items: itemsOf(item)}); err == nil {
						t.Errorf("%s begins without chunk %d", name, i)
					}
					if err := m.LoadChunk(i); err != nil {
						t.Fatal(err)
					}
					checkHeld(t, st, m)
				}
				equalAnswers(t, fmt.Sprintf("%s, round %d", name, round), answer(t, m, item), want)
				for _, i := range random.Perm(len(m.Chunks()))[:1+round%4] {
					m.DropChunk(i)
					checkHeld(t, st, m)
				}
				if round%2 == 1 {
					m.Close()
					if err := m.Use(w); err != nil {
						t.Fatal(err)
					}
				}
				for i := range m.Chunks() {
					m.DropChunk(i)
				}
				checkHeld(t, st, m)
			}
			if st.Bytes() != 0 {
				t.Errorf("%s: %d bytes are held after all was dropped", name, st.Bytes())
			}
			w.Free()
		}
	})
}

// checkHeld compares what the store holds with the resident chunks of its only model.
func checkHeld(t *testing.T, st *store.Store, m *Model) {
	t.Helper()
	var want int64
	for _, c := range m.Chunks() {
		if c.Resident {
			want += c.Bytes
		}
	}
	if st.Bytes() != want {
		t.Fatalf("the store holds %d bytes, its model's chunks %d", st.Bytes(), want)
	}
}

// TestChunkPredictions: what chunks are expected to take is not far from what they take.
func TestChunkPredictions(t *testing.T) {
	for _, b := range []kernels.Backend{cpuBackend(t, ""), cpuRanks(t, 2)} {
		m := openDir(t, writeCheckpoint(t, "qwen3-wide", 1, nil), store.New(b), bitsOptions)
		before := m.Chunks()
		if err := m.LoadAll(); err != nil {
			t.Fatal(err)
		}
		for i, c := range m.Chunks() {
			if off := float64(before[i].Bytes)/float64(c.Bytes) - 1; off < -0.1 || off > 0.1 {
				t.Errorf("%s, %s: %d bytes were expected, there are %d", b.Name(), c.Name, before[i].Bytes, c.Bytes)
			}
		}
		m.Close()
	}
}

// TestModelsShareWhatIsEqual: two models of one checkpoint are one in memory, whichever goes first.
func TestModelsShareWhatIsEqual(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		dir := writeCheckpoint(t, "qwen2", 2, nil)
		item := wire.TokenItem{Tokens: goldenPrompt(50, 250), Ask: engine.Ask{Top: 20}}
		st := store.New(b)
		first, second := openDir(t, dir, st, bitsOptions), openDir(t, dir, st, bitsOptions)
		w, err := NewWorkspace(b, first.Plan(), second.Plan())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Free()
		for _, m := range []*Model{first, second} {
			if err := m.Use(w); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.LoadAll(); err != nil {
			t.Fatal(err)
		}
		alone := st.Bytes()
		want := answer(t, first, item)
		if err := second.LoadAll(); err != nil {
			t.Fatal(err)
		}
		if st.Bytes() != alone {
			t.Errorf("two models of one checkpoint take %d bytes, one takes %d", st.Bytes(), alone)
		}
		first.Close()
		equalAnswers(t, "after the other was dropped", answer(t, second, item), want)
		second.Close()
		if st.Bytes() != 0 {
			t.Errorf("%d bytes are held after both were dropped", st.Bytes())
		}
	})
}

// TestFineTuneLoadsItsOwn: of a fine-tune that differs in one tensor, that tensor alone is loaded; both have the
// bits that they have alone, and each outlives the other.
func TestFineTuneLoadsItsOwn(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		for _, c := range []struct{ name, tensor, kind string }{
			{"qwen2", "model.layers.1.mlp.down_proj.weight", "output"},
			{"llama2", "lm_head.weight", "table"},
			{"llama3-int8-head", "lm_head.weight", "table"},
			{"qwen2-fp8", "model.layers.0.self_attn.k_proj.weight", "linear"},
		} {
			item := wire.TokenItem{Tokens: goldenPrompt(50, 250), Ask: engine.Ask{Top: 20}}
			dirs := []string{writeCheckpoint(t, c.name, 2, nil), writeCheckpoint(t, c.name, 1, func(ts []kernels.HostTensor) []kernels.HostTensor {
				for i := range ts {
					if ts[i].Name == c.tensor {
						ts[i].Data[0] ^= 0x20
					}
				}
				return ts
			})}
			st, known := store.New(b), catalog.New("")
			var models []*Model
			var plans []Plan
			var want []*engine.Answer
			for _, dir := range dirs {
				alone, err := Load(dir, b, bitsOptions)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, answer(t, alone, item))
				alone.Close()
				config, checkpoint := openCheckpoint(t, dir)
				if err := known.Add(t.Context(), checkpoint, nil); err != nil {
					t.Fatal(err)
				}
				m, err := Open(config, checkpoint, st, bitsOptions)
				if err != nil {
					t.Fatal(err)
				}
				models, plans = append(models, m), append(plans, m.Plan())
			}
			w, err := NewWorkspace(b, plans...)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Free()
			load := func(m *Model) {
				if err := errors.Join(m.Use(w), m.LoadAll()); err != nil {
					t.Fatal(err)
				}
			}
			load(models[0])
			alone := st.Bytes()
			load(models[1])
			var own int64
			differ := 0
			for i, c := range models[1].Chunks() {
				if c.Key == models[0].Chunks()[i].Key {
					continue
				}
				differ++
				for j, p := range c.Parts {
					if p.Key != models[0].Chunks()[i].Parts[j].Key {
						own += p.Bytes
					}
				}
			}
			if differ != 1 || st.Bytes() != alone+own || own == 0 {
				t.Errorf("%s: %d chunks differ, together they take %d bytes, one alone %d, what differs %d", c.name, differ, st.Bytes(), alone, own)
			}
			for range 2 {
				for i, m := range models {
					equalAnswers(t, c.name, answer(t, m, item), want[i])
				}
				models[0].Close()
				equalAnswers(t, c.name, answer(t, models[1], item), want[1])
				load(models[0])
				models[1].Close()
				equalAnswers(t, c.name, answer(t, models[0], item), want[0])
				load(models[1])
			}
			models[0].Close()
			models[1].Close()
			if st.Bytes() != 0 {
				t.Errorf("%s: %d bytes are held after both were dropped", c.name, st.Bytes())
			}
		}
	})
}

// TestRoundsOfLoading loads and drops models a hundred times: the process holds what it held after the first
// ones, and as many files.
func TestRoundsOfLoading(t *testing.T) {
	b := cpuBackend(t, "")
	var dirs []string
	for _, name := range []string{"llama-bias", "qwen3-wide", "qwen2-fp8"} {
		dirs = append(dirs, writeCheckpoint(t, name, 2, nil))
	}
	st := store.New(b)
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(list)
	}
	round := func(i int) {
		m := openDir(t, dirs[i%len(dirs)], st, Options{MaxLen: 256})
		for i := range m.Chunks() {
			if err := m.LoadChunk(i); err != nil {
				t.Fatal(err)
			}
		}
		w, err := NewWorkspace(b, m.Plan())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Use(w); err != nil {
			t.Fatal(err)
		}
		run(t, m, wire.TokenItem{Tokens: goldenPrompt(40, 250)})
		m.Close()
		w.Free()
		if st.Bytes() != 0 {
			t.Fatalf("the store holds %d bytes", st.Bytes())
		}
	}
	held := func() int64 {
		runtime.GC() // what was in a sync.Pool outlives one collection
		debug.FreeOSMemory()
		return processMemory(t, "VmRSS:")
	}
	for i := range 2 * len(dirs) {
		round(i)
	}
	opened, leaks := files(), true
	for try := 0; try < 3 && leaks; try++ { // what leaks grows each time, the runtime's own wobble does not
		start, began := held(), time.Now()
		for i := range 100 {
			round(i)
		}
		end := held()
		t.Logf("%d bytes are resident before, %d after 100 rounds of %v", start, end, time.Since(began)/100)
		leaks = end-start > max(start/50, 1<<20)
	}
	if leaks {
		t.Error("each 100 rounds left more than they found")
	}
	if now := files(); now != opened {
		t.Errorf("%d files are open, %d were", now, opened)
	}
}

// TestLoadOfAChangedFile: what was opened is what is loaded, or an error that names the file.
func TestLoadOfAChangedFile(t *testing.T) {
	for what, change := range map[string]func(file string) error{
		"rewritten in place": func(file string) error { return os.Chtimes(file, time.Time{}, time.Now().Add(time.Second)) },
		"cut short":          func(file string) error { return os.Truncate(file, 1<<12) },
		"another one": func(file string) error {
			raw, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(file+".new", raw, 0o600); err != nil {
				return err
			}
			if err := os.Chtimes(file+".new", time.Time{}, info.ModTime()); err != nil {
				return err
			}
			return os.Rename(file+".new", file)
		},
		"gone": os.Remove,
	} {
		dir := writeCheckpoint(t, "qwen2", 1, nil)
		m := openDir(t, dir, store.New(ref.New()), bitsOptions)
		if err := m.LoadChunk(0); err != nil {
			t.Fatal(err)
		}
		m.DropChunk(0)
		file := filepath.Join(dir, "model.safetensors")
		if err := change(file); err != nil {
			t.Fatal(err)
		}
		for i := range m.Chunks() {
			if err := m.LoadChunk(i); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: loading chunk %d: %v", what, i, err)
			}
		}
		if m.Ready() {
			t.Errorf("%s: the model is ready", what)
		}
		m.Close()
	}
}

// TestLoadFailsWhole: when the memory for one part is not to be had, no part of a load stays.
func TestLoadFailsWhole(t *testing.T) {
	dir := writeCheckpoint(t, "qwen2", 1, nil)
	failing := &failingLinears{Backend: ref.New(), after: 9}
	st := store.New(failing)
	m := openDir(t, dir, st, bitsOptions)
	if err := m.LoadAll(); err == nil || !strings.Contains(err.Error(), "layer 2: no memory") {
		t.Errorf("LoadAll: %v", err)
	}
	if st.Bytes() != 0 {
		t.Errorf("%d bytes are held after a load that failed", st.Bytes())
	}
	failing.after = 1 << 20
	if err := m.LoadAll(); err != nil {
		t.Error(err)
	}
	m.Close()
}

// failingLinears has memory for so many matrices.
type failingLinears struct {
	kernels.Backend
	after int
}

func (f *failingLinears) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	if f.after--; f.after < 0 {
		return nil, fmt.Errorf("no memory")
	}
	return f.Backend.NewLinear(parts, bias)
}
