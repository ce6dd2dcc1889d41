package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// goldenPools are the names of poolings in tools/golden/golden_vectors.py.
var goldenPools = map[string]engine.Pool{
	"lasttoken": engine.PoolLast, "cls": engine.PoolFirst, "mean": engine.PoolMean, "max": engine.PoolMax,
	"mean_sqrt_len_tokens": engine.PoolRoot, "weightedmean": engine.PoolWeighted,
}

// goldenVectors is a vectors.json.
type goldenVectors struct {
	Cases []struct {
		Length  int
		Logits  []float64
		Vectors map[string][]float64
	}
}

// classifierOf is a golden directory's model with a classification head of so many labels.
func classifierOf(t testing.TB, name string, labels int, b kernels.Backend) *Model {
	t.Helper()
	config, source := goldenSource(t, name)
	config.Architectures = []string{strings.TrimSuffix(config.Architectures[0], "ForCausalLM") + "ForSequenceClassification"}
	config.NumLabels = &labels
	m, err := New(config, source, b, Options{MaxLen: 1024, ChunkRows: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func vectorItem(tokens []engine.TokenID, pool engine.Pool, head bool) wire.TokenItem {
	return wire.TokenItem{Tokens: tokens, Ask: engine.Ask{Pool: pool, Head: head}}
}

// compare is the cosine of two vectors, and how many times as long the first one is.
func compare(a []float32, b []float64) (cosine, length float64) {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+float64(a[i])*b[i], aa+float64(a[i])*float64(a[i]), bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb), math.Sqrt(aa / bb)
}

// TestVectorsEqualTransformers: each pooling and the classification head, by the reference and by the CPU.
func TestVectorsEqualTransformers(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		for _, name := range []string{"llama3", "mistral", "qwen2", "qwen3"} {
			t.Run(name, func(t *testing.T) {
				var g goldenVectors
				readJSON(t, "testdata/"+name+"/vectors.json", &g)
				m := classifierOf(t, name, len(g.Cases[0].Logits), b)
				angle, logit := 1e-3, 0.03
				if b.ActType() == kernels.F32 {
					angle, logit = 1e-6, 1e-3
				}
				for _, c := range g.Cases {
					tokens := goldenPrompt(c.Length, m.spec.Vocab)
					for mode, want := range c.Vectors {
						got := run(t, m, vectorItem(tokens, goldenPools[mode], false))[0]
						if got.Err != nil || len(got.Vector) != len(want) {
							t.Fatalf("%d tokens, %s: %d numbers, %v", c.Length, mode, len(got.Vector), got.Err)
						}
						if cosine, length := compare(got.Vector, want); 1-cosine > angle || math.Abs(length-1) > 1e-4+10*angle {
							t.Errorf("%d tokens, %s: cosine %.6f, %.6f times as long", c.Length, mode, cosine, length)
						}
					}
					got := run(t, m, vectorItem(tokens, engine.PoolLast, true))[0]
					for i, want := range c.Logits {
						if got.Err != nil || math.Abs(float64(got.Vector[i])-want) > logit {
							t.Errorf("%d tokens: logits %v, want %v", c.Length, got.Vector, c.Logits)
							break
						}
					}
				}
			})
		}
	})
}

// TestVectorsAnyWay: a vector has the same bits alone and beside others, whole and behind cached pages.
func TestVectorsAnyWay(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		config, source := goldenSource(t, "qwen3")
		m, err := New(config, source, b, Options{MaxLen: 1024, ChunkRows: 128, BlockTokens: 16})
		if err == nil {
			err = m.NewPages(16)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		tokens := goldenPrompt(300, m.spec.Vocab)
		kinds := []engine.Pool{engine.PoolMean, engine.PoolLast, engine.PoolAll, engine.PoolMax}
		items := []wire.TokenItem{{Tokens: tokens[7:40], Ask: engine.Ask{Top: 1}}}
		for i, kind := range kinds {
			items = append(items, vectorItem(tokens[:100+50*i], kind, false))
		}
		together := run(t, m, items...)
		for i := range kinds {
			alone := run(t, m, items[i+1])[0]
			if alone.Err != nil || len(alone.Vector) == 0 || !slices.Equal(alone.Vector, together[i+1].Vector) {
				t.Errorf("pooling %d is not the same beside others: %v", kinds[i], alone.Err)
			}
		}
		if n := m.spec.Hidden * 200; len(together[3].Vector) != n {
			t.Errorf("all vectors of 200 tokens are %d numbers, want %d", len(together[3].Vector), n)
		}
		first := vectorItem(tokens[:64], engine.PoolLast, false)
		first.Blocks = []wire.BlockID{3, 1, 2, 0}
		run(t, m, first)
		second := vectorItem(tokens[:150], engine.PoolLast, false)
		second.Blocks, second.Cached = first.Blocks, 64
		if got := run(t, m, second)[0]; got.Err != nil || !slices.Equal(got.Vector, together[2].Vector) {
			t.Errorf("behind cached pages the vector is another one: %v", got.Err)
		}
	})
}

// TestVectorsOnly: models without an LM head take no memory for one, refuse tokens, and tell what they give.
func TestVectorsOnly(t *testing.T) {
	m := classifierOf(t, "qwen3", 5, ref.New())
	if info := m.Info().Tokens; !info.VectorsOnly || info.Labels != 5 || info.Hidden != m.spec.Hidden {
		t.Errorf("the classifier says %+v", *info)
	}
	config, _ := goldenSource(t, "qwen3")
	whole, err := Predict(config, ref.New(), Options{MaxLen: 1024, ChunkRows: 256})
	if err != nil || m.Plan().Work >= whole.Work {
		t.Errorf("%d bytes of working memory without logits, %d with: %v", m.Plan().Work, whole.Work, err)
	}
	tokens := goldenPrompt(10, m.spec.Vocab)
	for _, c := range []struct {
		ask  engine.Ask
		want string
	}{
		{engine.Ask{}, "no LM head"}, {engine.Ask{Pool: engine.PoolAll + 1}, "pooling 8"}, {engine.Ask{Pool: engine.PoolLast, PromptLogprobs: true}, "prompt logprobs"},
	} {
		got := run(t, m, wire.TokenItem{Tokens: tokens, Ask: c.ask}, vectorItem(tokens, engine.PoolLast, true))
		if got[0].Err == nil || !strings.Contains(got[0].Err.Message, c.want) || got[1].Err != nil || len(got[1].Vector) != 5 {
			t.Errorf("%+v: %v, want %q, and beside it %+v", c.ask, got[0].Err, c.want, got[1])
		}
	}
	plain := newModel(t, "qwen3", ref.New(), Options{MaxLen: 64})
	if got := run(t, plain, vectorItem(tokens, engine.PoolLast, true))[0]; got.Err == nil || !strings.Contains(got.Err.Message, "no classification head") {
		t.Errorf("a model without a classification head answers %+v", got)
	}
}

// TestReward: the head of two layers is computed from the vector.
func TestReward(t *testing.T) {
	config, source := goldenSource(t, "qwen2")
	config.Architectures = []string{"Qwen2ForRewardModel"}
	m, err := New(config, source, ref.New(), Options{MaxLen: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	tokens := goldenPrompt(20, m.spec.Vocab)
	got := run(t, m, vectorItem(tokens, engine.PoolLast, false), vectorItem(tokens, engine.PoolLast, true))
	numbers := func(name string, shape ...int) []float32 {
		tensor, err := source.Tensor(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		v := make([]float32, len(tensor.Data)/int(tensor.Type.Size()))
		kernels.Expand(v, tensor.Type, tensor.Data)
		return v
	}
	n := m.spec.Hidden
	w0, b0 := numbers("score.0.weight", n, n), numbers("score.0.bias", n)
	w2, b2 := numbers("score.2.weight", 1, n), numbers("score.2.bias", 1)
	want := float64(b2[0])
	for i := range n {
		sum := float64(b0[i])
		for j, v := range got[0].Vector {
			sum += float64(w0[i*n+j]) * float64(v)
		}
		want += float64(w2[i]) * max(0, sum)
	}
	if len(got[1].Vector) != 1 || math.Abs(float64(got[1].Vector[0])-want) > 1e-4 {
		t.Errorf("the reward is %v, want %g", got[1].Vector, want)
	}
}

// bare is a source whose tensors have names without the usual prefix.
type bare struct{ weights.Random }

func (b bare) Find(name string, shape ...int) (kernels.DType, error) {
	if strings.HasPrefix(name, "model.") {
		return 0, fmt.Errorf("the checkpoint has no tensor %q", name)
	}
	return b.Random.Find(name, shape...)
}

// TestBareNames: a checkpoint that was saved without its head is found, whatever its architecture is called.
func TestBareNames(t *testing.T) {
	for _, architecture := range []string{"Qwen3ForCausalLM", "Qwen3Model"} {
		config, source := goldenSource(t, "qwen3")
		config.Architectures, config.TieWordEmbeddings = []string{architecture}, true
		m, err := New(config, bare{source}, ref.New(), Options{MaxLen: 64})
		if err != nil {
			t.Errorf("%s: %v", architecture, err)
			continue
		}
		if got := run(t, m, vectorItem(goldenPrompt(9, m.spec.Vocab), engine.PoolMean, false))[0]; got.Err != nil || len(got.Vector) != m.spec.Hidden {
			t.Errorf("%s: %+v", architecture, got)
		}
		m.Close()
	}
}

// TestVectorIsWhatLogitsAreOf: the difference of two tokens' log-probabilities is that of the products of the last token's vector with their
// rows of the LM head, in a family whose last norm is centred, too.
func TestVectorIsWhatLogitsAreOf(t *testing.T) {
	for _, name := range []string{"starcoder2", "qwen3"} {
		config, source := goldenSource(t, name)
		m, err := New(config, source, ref.New(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		tokens, labels := goldenPrompt(40, m.spec.Vocab), []engine.TokenID{3, 200}
		vector := run(t, m, vectorItem(tokens, engine.PoolLast, false))[0].Vector
		got := answer(t, m, wire.TokenItem{Tokens: tokens, Ask: engine.Ask{Labels: labels}}).Labels
		head, err := source.Tensor("lm_head.weight", m.spec.Vocab, m.spec.Hidden)
		if err != nil {
			t.Fatal(err)
		}
		rows := make([]float32, m.spec.Vocab*m.spec.Hidden)
		kernels.Expand(rows, head.Type, head.Data)
		var products [2]float64
		for i, id := range labels {
			for j, v := range vector {
				products[i] += float64(v) * float64(rows[int(id)*m.spec.Hidden+j])
			}
		}
		if off := products[0] - products[1] - float64(got[0].Logprob-got[1].Logprob); math.Abs(off) > 1e-4 {
			t.Errorf("%s: log-probabilities differ by %g, products by %g", name, got[0].Logprob-got[1].Logprob, products[0]-products[1])
		}
	}
}
