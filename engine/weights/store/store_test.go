package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// source has tensors of which those of one name and kind of the model are equal.
type source struct {
	weights.Random
	open     int // tensors asked for since Close
	failures map[string]bool
	changed  bool
}

func (s *source) Tensor(name string, shape ...int) (kernels.HostTensor, error) {
	if s.failures[name] {
		return kernels.HostTensor{}, fmt.Errorf("no %s", name)
	}
	s.open++
	return s.Random.Tensor(name, shape...)
}

func (s *source) Unchanged() error {
	if s.changed {
		return errors.New("changed")
	}
	return nil
}

func (s *source) Close() error {
	s.open = 0
	return nil
}

// piece is what the test's parts become.
type piece struct {
	live  map[*piece]int64
	bytes int64
}

func (p *piece) Bytes() int64 { return p.bytes }
func (p *piece) Free()        { delete(p.live, p) }

// modelOf describes a model of chunks of parts, each by a letter: small ones are in place. Fields are what
// its parts became.
func modelOf(st *Store, src *source, live map[*piece]int64, chunks ...string) (*Weights, map[string]kernels.Held) {
	fields := map[string]kernels.Held{}
	var list []Chunk
	for i, letters := range chunks {
		c := Chunk{Name: fmt.Sprint("chunk ", i)}
		for j, letter := range letters {
			name, field := string(letter), fmt.Sprint(i, ".", j)
			size := 1 + int(letter)%7
			p := Part{
				Kind: "piece", Tensors: []Tensor{{name, []int{size}, 4 * int64(size)}}, Bytes: 4 * int64(size),
				InPlace: strings.ToLower(name) == name,
				Set: func(h kernels.Held) {
					if fields[field] = h; h == nil {
						delete(fields, field)
					}
				},
			}
			p.Make = func(t []kernels.HostTensor) (kernels.Held, error) {
				made := &piece{live: live}
				if !p.InPlace {
					made.bytes = int64(len(t[0].Data))
				}
				live[made] = int64(len(t[0].Data))
				return made, nil
			}
			c.Parts = append(c.Parts, p)
		}
		list = append(list, c)
	}
	return st.Weights(src, list), fields
}

// TestStoreHoldsTheUnion loads and drops chunks of three models at random: what is held is the union of the parts
// of resident chunks, each once, and a source is closed when nothing of it is in use.
func TestStoreHoldsTheUnion(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	descriptions := [][]string{{"ABc", "DE", "FgH"}, {"ABc", "DX", "FgH", "YZ"}, {"cc", "QAAq", "g"}}
	st, live := New(ref.New()), map[*piece]int64{}
	var models []*Weights
	var sources []*source
	var fields []map[string]kernels.Held
	for _, d := range descriptions {
		src := &source{Random: weights.Random{Seed: 1}, failures: map[string]bool{}}
		w, f := modelOf(st, src, live, d...)
		models, sources, fields = append(models, w), append(sources, src), append(fields, f)
	}
	resident := make([][4]bool, len(models))
	for step := range 20000 {
		m := random.IntN(len(models))
		i := random.IntN(len(descriptions[m]))
		switch random.IntN(8) {
		case 0, 1, 2:
			if err := models[m].Load(i); err != nil {
				t.Fatal(err)
			}
			resident[m][i] = true
		case 3:
			fails := descriptions[m][i]
			sources[m].failures[fails[len(fails)-1:]] = true
			if err := models[m].Load(i); err == nil {
				resident[m][i] = true // it was there, or all of its parts
			}
			clear(sources[m].failures)
		case 4:
			sources[m].changed = true
			if err := models[m].Load(i); (err == nil) != resident[m][i] {
				t.Fatalf("step %d: Load from a source that changed: %v", step, err)
			}
			sources[m].changed = false
		case 5:
			if err := models[m].LoadAll(); err != nil || !models[m].Ready() {
				t.Fatal(err)
			}
			for i := range descriptions[m] {
				resident[m][i] = true
			}
		default:
			models[m].Drop(i)
			resident[m][i] = false
		}
		check(t, step, st, live, descriptions, resident, models, fields)
	}
	for _, w := range models { // whose parts others may use in place
		w.DropAll()
	}
	for i, src := range sources {
		if src.open != 0 {
			t.Errorf("source %d has %d tensors open after all was dropped", i, src.open)
		}
	}
	if st.Bytes() != 0 || len(live) != 0 {
		t.Errorf("%d bytes in %d pieces are held after all was dropped", st.Bytes(), len(live))
	}
}

func check(t *testing.T, step int, st *Store, live map[*piece]int64, descriptions [][]string, resident [][4]bool, models []*Weights, fields []map[string]kernels.Held) {
	t.Helper()
	union, sum := map[rune]bool{}, int64(0)
	for m, d := range descriptions {
		set := 0
		for i, letters := range d {
			if models[m].Chunks()[i].Resident != resident[m][i] {
				t.Fatalf("step %d: chunk %d of model %d is resident: %t", step, i, m, !resident[m][i])
			}
			if !resident[m][i] {
				continue
			}
			set += len(letters)
			for _, letter := range letters {
				if !union[letter] {
					union[letter] = true
					sum += 4 * (1 + int64(letter)%7)
				}
			}
		}
		if len(fields[m]) != set {
			t.Fatalf("step %d: %d fields of model %d are set, want %d", step, len(fields[m]), m, set)
		}
	}
	held := int64(0)
	for _, bytes := range live {
		held += bytes
	}
	if st.Bytes() != sum || held != sum || len(live) != len(union) {
		t.Fatalf("step %d: the store says %d bytes, %d are held in %d pieces, want %d in %d", step, st.Bytes(), held, len(live), sum, len(union))
	}
}

// TestKeys: what differs in content, shape or packing has another key, and what does not has the same.
func TestKeys(t *testing.T) {
	st := New(ref.New())
	key := func(seed uint64, kind string, tensors ...Tensor) Key {
		return st.Weights(weights.Random{Seed: seed}, []Chunk{{Parts: []Part{{Kind: kind, Tensors: tensors}}}}).Chunks()[0].Key
	}
	a, b := Tensor{Name: "a", Shape: []int{2, 3}}, Tensor{Name: "b", Shape: []int{2, 3}}
	keys := []Key{
		key(1, "linear", a, b), key(1, "linear", b, a), key(1, "linear", a), key(1, "gated", a, b), key(2, "linear", a, b),
		key(1, "linear", Tensor{Name: "a", Shape: []int{3, 2}}, b), key(1, "linear"), key(1, "linear", a, a),
	}
	for i := range keys {
		for j := range i {
			if keys[i] == keys[j] {
				t.Errorf("keys %d and %d are the same", i, j)
			}
		}
	}
	if key(1, "linear", a, b) != keys[0] {
		t.Error("the same parts have two keys")
	}
}
