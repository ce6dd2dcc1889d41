package host

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/procfs"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// resident is how many bytes of pieces Info says are there, and how many pieces.
func resident(info wire.ExecutorInfo) (bytes int64, pieces int) {
	for _, w := range info.Weights {
		if w.Resident {
			bytes += int64(w.Bytes)
			pieces++
		}
	}
	return bytes, pieces
}

// TestLoadAndDrop: a model runs with all of its pieces and not without one, beside another one; what Info says
// is resident is what the store holds.
func TestLoadAndDrop(t *testing.T) {
	h := open(t, testOptions(), testModels(checkpoints(t)))
	base, wide := infoOf(t, h, "base"), infoOf(t, h, "wide")
	if len(base.Weights) != 6 || len(wide.Weights) != 5 || h.Info().LoadRate != 0 {
		t.Fatalf("%d and %d pieces, loaded at %v B/s", len(base.Weights), len(wide.Weights), h.Info().LoadRate)
	}
	loadAll(t, h, "wide")
	want := ask(t, h, "wide")
	for i, w := range base.Weights {
		if _, err := h.Begin(&wire.Run{Model: "base"}); engineCode(err) != engine.CodeUnavailable {
			t.Fatalf("with %d pieces: %v", i, err)
		}
		if err := executor.Load(h, "base", w); err != nil {
			t.Fatal(err)
		}
		if bytes, pieces := resident(h.Info()); bytes != h.store.Bytes() || pieces != 5+i+1 {
			t.Fatalf("Info tells of %d bytes in %d pieces, the store holds %d", bytes, pieces, h.store.Bytes())
		}
	}
	first := ask(t, h, "base")
	h.Drop(base.Weights[2:3])
	if _, err := h.Begin(&wire.Run{Model: "base"}); engineCode(err) != engine.CodeUnavailable {
		t.Errorf("without a piece: %v", err)
	}
	loadAll(t, h, "base")
	if again := ask(t, h, "base"); !reflect.DeepEqual(again, first) {
		t.Errorf("after a piece was dropped and loaded %+v, before %+v", again, first)
	}
	h.Drop(base.Weights)
	if got := ask(t, h, "wide"); !reflect.DeepEqual(got, want) {
		t.Errorf("after another model was dropped %+v, before %+v", got, want)
	}
	if rate := h.Info().LoadRate; rate <= 0 {
		t.Errorf("loads of %v bytes a second", rate)
	}
	for name, w := range map[string]uint32{"base": wide.Weights[0], "none": 0} {
		if err := executor.Load(h, name, w); err == nil {
			t.Errorf("piece %d was loaded for %s", w, name)
		}
	}
}

func engineCode(err error) engine.Code {
	if e, ok := err.(*engine.Error); ok {
		return e.Code
	}
	return 0
}

// TestHundredRounds loads and drops models in turn beside one that stays, with passes between: the process and
// the device end with what they began with. The simulated device's own threads make its process's memory no measure.
func TestHundredRounds(t *testing.T) {
	processor, err := cpu.New(cpu.Config{Threads: 2})
	if err != nil {
		t.Skip(err)
	}
	large := testConfig
	large.HiddenSize, large.IntermediateSize = 768, 2048
	for name, b := range map[string]kernels.Backend{"processor": processor, "GPU": cuda.New(simt.New())} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			o.Backend, o.Limits.Device, o.Blobs = b, 512<<20, &runnertest.Memory{}
			models := append(testModels(checkpoints(t)), Model{Name: "network", Path: writeNetwork(t, filter(1))}, Model{Name: "stays", Path: write(t, large, 3), Prompts: Prompts{MaxLen: 16}})
			h := open(t, o, models)
			loadAll(t, h, "stays")
			stays, empty := h.store.Bytes(), left(t, b)
			round := func(i int) {
				for _, name := range []string{"base", "wide", "network"} {
					loadAll(t, h, name)
					if i == 0 && name != "network" {
						ask(t, h, name)
					}
					h.Drop(infoOf(t, h, name).Weights)
				}
			}
			runtime.LockOSThread() // as an executor does
			defer runtime.UnlockOSThread()
			for i := range 20 { // what threads, allocators and the device keep is there then
				round(i)
			}
			before, beforeLeft := processMemory(t), left(t, b)
			for i := range 100 {
				round(i)
			}
			after := processMemory(t)
			t.Logf("%d bytes before, %d after", before, after)
			if float64(after) > 1.02*float64(before) && name == "processor" {
				t.Errorf("%d bytes of memory, there were %d", after, before)
			}
			if n := left(t, b); n != beforeLeft || n < empty-1<<20 || h.store.Bytes() != stays {
				t.Errorf("the device has %d bytes left, and had %d and %d before; the store holds %d", n, beforeLeft, empty, h.store.Bytes())
			}
		})
	}
}

// left is what a device says that it has left, 0 if it does not.
func left(t *testing.T, b kernels.Backend) int64 {
	m, ok := b.(interface {
		Memory() (free, total int64, err error)
	})
	if !ok {
		return 0
	}
	n, _, err := m.Memory()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// processMemory is the least of several readings: the collector gives memory back late.
func processMemory(t *testing.T) int64 {
	least := int64(math.MaxInt64)
	for range 5 {
		debug.FreeOSMemory()
		n, err := procfs.Memory(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, n)
	}
	return least
}

// TestFileChanged: a model whose file has changed since it was opened, or is another one, is refused by that
// file's name, and the other model goes on. A file that is in use is the one that was opened, unless it is written to.
func TestFileChanged(t *testing.T) {
	for what, change := range map[string]func(file string) error{
		"replaced": func(file string) error {
			return os.Rename(filepath.Join(write(t, testConfig, 3), "model.safetensors"), file)
		},
		"written":   func(file string) error { return os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)) },
		"cut short": func(file string) error { return os.Truncate(file, 50000) },
		"removed":   os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			dirs := checkpoints(t)
			h := open(t, testOptions(), testModels(dirs))
			loadAll(t, h, "wide")
			want := ask(t, h, "wide")
			pieces := infoOf(t, h, "base").Weights
			at := map[string]int{"written": 2, "cut short": 2}[what]
			for _, w := range pieces[:at] {
				if err := executor.Load(h, "base", w); err != nil {
					t.Fatal(err)
				}
			}
			held := h.store.Bytes()
			file := filepath.Join(dirs["base"], "model.safetensors")
			if err := change(file); err != nil {
				t.Fatal(err)
			}
			err := executor.Load(h, "base", pieces[at])
			if engineCode(err) != engine.CodeUnavailable || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "base") {
				t.Errorf("the load: %v, want the model's and the file's name", err)
			}
			if h.store.Bytes() != held {
				t.Errorf("the store holds %d bytes after a load that failed, and held %d", h.store.Bytes(), held)
			}
			h.Drop(pieces[:at])
			if got := ask(t, h, "wide"); !reflect.DeepEqual(got, want) {
				t.Errorf("the other model: %+v, before %+v", got, want)
			}
		})
	}
}

// TestSameFiles: two models of one checkpoint have all pieces in common but the one with the rotary angles,
// which are of other lengths.
func TestSameFiles(t *testing.T) {
	dirs := checkpoints(t)
	h := open(t, testOptions(), []Model{{Name: "long", Path: dirs["base"], Prompts: Prompts{MaxLen: 400}}, {Name: "short", Path: dirs["base"], Prompts: Prompts{MaxLen: 200}}})
	long, short := infoOf(t, h, "long"), infoOf(t, h, "short")
	if len(h.Info().Weights) != 7 || !reflect.DeepEqual(long.Weights[:5], short.Weights[:5]) || long.Weights[5] == short.Weights[5] {
		t.Fatalf("pieces %v and %v of %d", long.Weights, short.Weights, len(h.Info().Weights))
	}
	loadAll(t, h, "long")
	held := h.store.Bytes()
	if err := executor.Load(h, "short", short.Weights[5]); err != nil {
		t.Fatal(err)
	}
	if more := h.store.Bytes() - held; more <= 0 || more > held/3 {
		t.Errorf("the second model takes %d bytes beside %d", more, held)
	}
	want := ask(t, h, "long")
	if got := ask(t, h, "short"); !reflect.DeepEqual(got, want) {
		t.Errorf("models of one checkpoint answer %+v and %+v", got, want)
	}
	h.Drop(long.Weights[5:])
	if got := ask(t, h, "short"); !reflect.DeepEqual(got, want) {
		t.Errorf("without what is the other's alone %+v", got)
	}
	h.Drop(short.Weights)
	if h.store.Bytes() != 0 {
		t.Errorf("the store holds %d bytes", h.store.Bytes())
	}
}

// TestFineTune: a model that differs from another in one layer of 24 has all pieces but that in common with it.
// That layer alone is loaded, by whichever is asked for it; both together take less than 1.1 times the memory
// of one; and neither is touched when the other goes.
func TestFineTune(t *testing.T) {
	c := testConfig
	c.NumHiddenLayers = 24
	cache := t.TempDir()
	models := []Model{{Name: "base", Path: write(t, c, 1), Prompts: Prompts{MaxLen: 400}}, {Name: "tuned", Path: writeTuned(t, c, 1, "model.layers.7."), Prompts: Prompts{MaxLen: 400}}}
	alone := map[string]*engine.Answer{}
	for _, m := range models {
		h := open(t, testOptions(), []Model{m})
		loadAll(t, h, m.Name)
		alone[m.Name] = ask(t, h, m.Name)
	}
	if reflect.DeepEqual(alone["base"], alone["tuned"]) {
		t.Fatal("both answer the same")
	}
	o := testOptions()
	o.CacheDir = cache
	h := open(t, o, models)
	base, tuned := infoOf(t, h, "base").Weights, infoOf(t, h, "tuned").Weights
	if len(h.Info().Weights) != 27 || len(base) != 26 || len(tuned) != 26 || base[8] == tuned[8] {
		t.Fatalf("%d pieces, %v and %v", len(h.Info().Weights), base, tuned)
	}
	loadAll(t, h, "base")
	one := h.store.Bytes()
	if err := executor.Load(h, "tuned", tuned[8]); err != nil {
		t.Fatal(err)
	}
	if both := h.store.Bytes(); float64(both) > 1.1*float64(one) {
		t.Errorf("%d bytes of both, %d of one", both, one)
	}
	same := func(when string, names ...string) {
		t.Helper()
		for _, name := range names {
			if got := ask(t, h, name); !reflect.DeepEqual(got, alone[name]) {
				t.Errorf("%s, %s answers %+v, alone %+v", when, name, got, alone[name])
			}
		}
	}
	same("side by side", "base", "tuned")
	h.Drop(base[8:9])
	same("without the other's layer", "tuned")
	h.Drop(tuned)
	loadAll(t, h, "tuned")
	if err := executor.Load(h, "base", base[8]); err != nil {
		t.Fatal(err)
	}
	same("loaded the other way round", "base", "tuned")
	h.SetModels(models[1:])
	same("after the other was removed", "tuned")
}
