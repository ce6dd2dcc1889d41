package host

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// TestPagesOfOneModel: it gets its share of all that its weights and passes leave.
func TestPagesOfOneModel(t *testing.T) {
	for _, c := range []struct {
		available int64
		bytes     int64
		share     float64
		pages     int
		want      string // in the error
	}{
		{1000, 0, 0.5, 10, ""},
		{1000, 150, 0.5, 15, ""},
		{1000, 0, 0, 0, ""},
		{1000, 201, 0.5, 0, "lower --max-model-len"},
		{799, 0, 0.5, 0, "lower --max-model-len"},
	} {
		d := demand{plan: model.Plan{Block: 10}, extra: 200, pieces: []piece{{0, 200}, {1, 400}}}
		p := planMemory(Limits{Device: c.available, Ranks: 1, CacheBytes: c.bytes, CacheShare: c.share}, []demand{d})
		err := p.refused[0]
		if p.pages[0] != c.pages || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %d pages, %v", c, p.pages[0], err)
		}
	}
}

// TestRefusalNamesBothFigures: what a model takes, and what there is.
func TestRefusalNamesBothFigures(t *testing.T) {
	const mib = 1 << 20
	big := demand{plan: model.Plan{Block: mib}, extra: 200 * mib, pieces: []piece{{0, 3000 * mib}}}
	kept := demand{plan: model.Plan{Block: mib}, extra: 100 * mib, pieces: []piece{{1, 900 * mib}}, always: true}
	small := demand{plan: model.Plan{Block: mib}, extra: 100 * mib, pieces: []piece{{2, 800 * mib}}}
	p := planMemory(Limits{Device: 1500 * mib, Ranks: 1, CacheShare: 0.5}, []demand{big, small, kept})
	for i, figures := range [][]string{{"1500 MiB", "3000 MiB", "200 MiB"}, {"1500 MiB", "1700 MiB", "beside"}, nil} {
		err := p.refused[i]
		if (err == nil) != (figures == nil) {
			t.Fatalf("model %d: %v", i, err)
		}
		for _, f := range figures {
			if !strings.Contains(err.Error(), f) {
				t.Errorf("model %d: %v, want %s in it", i, err, f)
			}
		}
	}
	if p.pages[2] != 250 {
		t.Errorf("%d pages of the model that fits, want 250", p.pages[2])
	}
}

// shapes are the plans of a few models without weights.
func shapes(t *testing.T) []model.Plan {
	var plans []model.Plan
	b := ref.New()
	for i, o := range []model.Options{{MaxLen: 64}, {MaxLen: 512, ChunkRows: 64}, {MaxLen: 200, BlockTokens: 32}, {MaxLen: 1000, ChunkRows: 32}} {
		c := testConfig
		c.HiddenSize, c.VocabSize = 32<<i, 2000>>i
		plan, err := model.Predict(c, b, o)
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, plan)
	}
	return plans
}

// TestDivide holds plans to a dumb one, that goes over whole lists again for each model.
func TestDivide(t *testing.T) {
	plans := shapes(t)
	rng := rand.New(rand.NewPCG(1, 2))
	accepted, refused := 0, 0
	for range 3000 {
		sizes := make([]int64, 12)
		for i := range sizes {
			sizes[i] = rng.Int64N(1 << 20)
		}
		demands := make([]demand, 1+rng.IntN(6))
		for i := range demands {
			d := demand{plan: plans[rng.IntN(len(plans))], extra: rng.Int64N(1 << 16), always: rng.IntN(3) == 0}
			d.plan.Stage = rng.Int64N(1 << 18)
			if rng.IntN(4) == 0 {
				d.plan = model.Plan{Stage: d.plan.Stage}
				d.encoder = encoder.Size{Views: rng.Int64N(1 << 20), Scratch: rng.Int64N(1 << 20)}
			}
			for at, bytes := range sizes {
				if rng.IntN(3) == 0 {
					d.pieces = append(d.pieces, piece{uint32(at), bytes})
				}
			}
			if rng.IntN(2) == 0 {
				d.share = rng.Float64()
			}
			demands[i] = d
		}
		l := Limits{Device: rng.Int64N(16 << 20), Host: 1 << 20, Ranks: 1 + rng.IntN(2), CacheShare: rng.Float64(), Padding: 0.1 * rng.Float64()}
		if rng.IntN(3) == 0 {
			l.CacheBytes = rng.Int64N(2 << 20)
		}
		p := planMemory(l, demands)
		var fit []demand
		for _, always := range []bool{true, false} {
			for i, d := range demands {
				if d.always != always {
					continue
				}
				need := needs(l, append(fit[:len(fit):len(fit)], d))
				ok := need <= l.Device && needs(l, []demand{d}) <= l.Device
				if ok != (p.refused[i] == nil) {
					t.Fatalf("%d bytes are needed of %d: %v", need, l.Device, p.refused[i])
				}
				var memory *MemoryError
				if ok {
					fit = append(fit, d)
					accepted++
				} else if refused++; !errors.As(p.refused[i], &memory) || p.pages[i] != 0 {
					t.Fatalf("refused with %d pages and %v", p.pages[i], p.refused[i])
				}
			}
		}
		without := l
		without.CacheBytes = 0
		if need := needs(without, fit); need+p.caches > l.Device && len(fit) > 0 {
			t.Fatalf("%d bytes are needed beside caches of %d, there are %d", need, p.caches, l.Device)
		}
		var pages int64
		for i, d := range demands {
			pages += int64(p.pages[i]) * d.plan.Block
		}
		if pages > p.caches {
			t.Fatalf("pages of %d bytes in caches of %d", pages, p.caches)
		}
	}
	if accepted < 1000 || refused < 1000 {
		t.Errorf("%d models fit, %d do not: too few to tell", accepted, refused)
	}
}

// needs is what models take at the least: the working memory, what is always kept, the model with most beside it, and what
// caches are to have, if one of them has a cache.
func needs(l Limits, demands []demand) int64 {
	var plans []model.Plan
	var extra, stage, most, all, views, scratch, caches int64
	kept := map[uint32]int64{}
	for _, d := range demands {
		plans, extra, stage = append(plans, d.plan), max(extra, d.extra), max(stage, d.plan.Stage)
		if d.hasCache() {
			caches = l.CacheBytes
		}
		views, scratch = max(views, d.encoder.Views), max(scratch, d.encoder.Scratch)
		for _, p := range d.pieces {
			if d.always {
				kept[p.at] = p.bytes
			}
		}
	}
	for _, bytes := range kept {
		all += bytes
	}
	for _, d := range demands {
		own := int64(0)
		for _, p := range d.pieces {
			if _, ok := kept[p.at]; !ok {
				own += p.bytes
			}
		}
		most = max(most, own)
	}
	work, _ := model.Shared(plans...)
	if len(demands) == 1 {
		stage = 0
	}
	return work + extra + stage + views + scratch + caches + l.paddedWeights(all+most)
}

// TestCachesBesideManyModels: as many models as do not fit together leave room for caches, and one that
// fits takes no more than alone.
func TestCachesBesideManyModels(t *testing.T) {
	list := func(n int) []demand {
		var all []demand
		for i := range n {
			all = append(all, demand{plan: model.Plan{Block: 1}, pieces: []piece{{uint32(i), 1000}}})
		}
		return all
	}
	for _, c := range []struct{ models, device, caches int }{
		{1, 3000, 2000}, {2, 3000, 1000}, {3, 3000, 666}, {3, 6000, 3000}, {10, 3000, 200},
	} {
		p := planMemory(Limits{Device: int64(c.device), Ranks: 1, CacheShare: 1}, list(c.models))
		if p.caches != int64(c.caches) {
			t.Errorf("%d models of 1000 bytes in %d leave %d for caches, want %d", c.models, c.device, p.caches, c.caches)
		}
		for i, pages := range p.pages {
			if want := c.caches / c.models; pages != want {
				t.Errorf("model %d of %d has %d pages, want %d", i, c.models, pages, want)
			}
		}
	}
}

// TestThousandModels plans for as many models as may be known.
func TestThousandModels(t *testing.T) {
	plans := shapes(t)
	demands := make([]demand, 1000)
	for i := range demands {
		d := demand{plan: plans[i%len(plans)]}
		for at := range 26 {
			d.pieces = append(d.pieces, piece{uint32(26*i + at), 1 << 20})
		}
		demands[i] = d
	}
	if p := planMemory(Limits{Device: 1 << 30, Ranks: 1, CacheShare: 0.5}, demands); errors.Join(p.refused...) != nil || p.all != 26000<<20 {
		t.Errorf("%v, weights of %d bytes", errors.Join(p.refused...), p.all)
	}
}
