package merging

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func draw(rng *rand.Rand) (models []Model) {
	for i := range 1 + rng.IntN(5) {
		m := Model{Name: fmt.Sprint(i)}
		for k := range rng.IntN(12) {
			signature := rng.IntN(4)
			m.Layers = append(m.Layers, Layer{fmt.Sprint(k), fmt.Sprint(signature), int64(10 * (signature + 1)), int64(rng.IntN(3))})
		}
		models = append(models, m)
	}
	return models
}

// leastCopies is how many copies of a signature's weights there must be: as many as the model with most of them has.
func leastCopies(models []Model, signature string) (most, all int) {
	for _, m := range models {
		n := 0
		for _, l := range m.Layers {
			if l.Signature == signature {
				n++
			}
		}
		most, all = max(most, n), all+n
	}
	return most, all
}

// stemByPairs counts a layer as shared if an earlier model has the same layers up to it.
func stemByPairs(models []Model) (sum int64) {
	for i, m := range models {
		for k := range m.Layers {
			if slices.ContainsFunc(models[:i], func(o Model) bool {
				return len(o.Layers) > k && slices.EqualFunc(o.Layers[:k+1], m.Layers[:k+1], func(a, b Layer) bool { return a.Signature == b.Signature })
			}) {
				sum += m.Layers[k].Bytes
			}
		}
	}
	return sum
}

// TestPlanEqualsCounting holds plans of random models to what counting says, and their groups to what groups are.
func TestPlanEqualsCounting(t *testing.T) {
	for seed := range uint64(2000) {
		models := draw(rand.New(rand.NewPCG(seed, 1)))
		p := NewPlan(models)
		want := int64(0)
		for s := range 4 {
			most, all := leastCopies(models, fmt.Sprint(s))
			want += int64(10*(s+1)) * int64(all-most)
		}
		if p.Shared() != want || p.Stem() != stemByPairs(models) || p.Stem() > p.Shared() || p.Shared() > p.Total() {
			t.Fatalf("seed %d: shared %d of %d, stem %d; want %d and %d", seed, p.Shared(), p.Total(), p.Stem(), want, stemByPairs(models))
		}
		used := map[Member]bool{}
		for i, g := range p.Groups {
			if i > 0 && g.Saved() > p.Groups[i-1].Saved() {
				t.Fatalf("seed %d: group %d saves more than the one before", seed, i)
			}
			in := map[int]bool{}
			for _, m := range g.Members {
				if used[m] || in[m.Model] {
					t.Fatalf("seed %d: %v is in two groups, or its model twice in one", seed, m)
				}
				used[m], in[m.Model] = true, true
				if k := slices.IndexFunc(models[m.Model].Layers, func(l Layer) bool { return l.Name == m.Layer }); models[m.Model].Layers[k].Signature != g.Signature {
					t.Fatalf("seed %d: %v is not %s", seed, m, g.Signature)
				}
			}
		}
	}
}
