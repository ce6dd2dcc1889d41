package encoder

import (
	"fmt"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
)

// shapes are those of usual checkpoints; tools/peers/encoders_torch.py has the same.
var shapes = map[string]string{
	"minilm-l6":  `{"architectures":["BertModel"],"vocab_size":30522,"hidden_size":384,"intermediate_size":1536,"num_hidden_layers":6,"num_attention_heads":12,"max_position_embeddings":512}`,
	"bert-base":  `{"architectures":["BertModel"],"vocab_size":30522,"hidden_size":768,"intermediate_size":3072,"num_hidden_layers":12,"num_attention_heads":12,"max_position_embeddings":512}`,
	"modernbert": `{"architectures":["ModernBertModel"],"vocab_size":50368,"hidden_size":768,"intermediate_size":1152,"num_hidden_layers":22,"num_attention_heads":12,"max_position_embeddings":8192}`,
}

// shaped is a model of random weights and a usual shape.
func shaped(b *testing.B, shape string) *Model {
	b.Helper()
	config, err := weights.ParseConfig([]byte(shapes[shape]))
	if err != nil {
		b.Fatal(err)
	}
	backend := cputest.Open(b, cpu.Config{})
	m, err := Open(config, weights.Random{Seed: goldenSeed, Type: kernels.BF16}, store.New(backend), Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range m.Chunks() {
		if err := m.LoadChunk(i); err != nil {
			b.Fatal(err)
		}
	}
	work, err := NewWorkspace(backend, m.Size().Views)
	if err == nil {
		err = m.Use(work)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		m.Close()
		work.Free()
	})
	return m
}

// texts are n prompts of 8 to 48 tokens; tools/peers/encoders_torch.py has as many of each length.
func (m *Model) texts(n int) (items []*wire.TokenItem) {
	for i := range n {
		items = append(items, &wire.TokenItem{Tokens: m.goldenPrompt(8 + i*17%41), Ask: engine.Ask{Pool: engine.PoolMean}})
	}
	return items
}

// BenchmarkTexts computes vectors of 1,000 short texts, in passes of 64 as the scheduler packs them at the most.
func BenchmarkTexts(b *testing.B) {
	for _, shape := range []string{"minilm-l6", "bert-base", "modernbert"} {
		b.Run(shape, func(b *testing.B) {
			m := shaped(b, shape)
			items := m.texts(1000)
			m.run(b, items[:64]...)
			b.ResetTimer()
			start, tokens := time.Now(), 0
			for range b.N {
				for from := 0; from < len(items); from += 64 {
					m.run(b, items[from:min(from+64, len(items))]...)
				}
				for _, it := range items {
					tokens += len(it.Tokens)
				}
			}
			seconds := time.Since(start).Seconds()
			b.ReportMetric(float64(len(items)*b.N)/seconds, "texts/s")
			b.ReportMetric(float64(tokens)/seconds, "tokens/s")
		})
	}
}

// BenchmarkLengths computes vectors of 8,192 tokens in prompts of one length.
func BenchmarkLengths(b *testing.B) {
	m := shaped(b, "modernbert")
	for _, n := range []int{32, 128, 512, 2048, 8192} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var items []*wire.TokenItem
			for range 8192 / n {
				items = append(items, &wire.TokenItem{Tokens: m.goldenPrompt(n), Ask: engine.Ask{Pool: engine.PoolFirst}})
			}
			start := time.Now()
			for range b.N {
				m.run(b, items...)
			}
			b.ReportMetric(8192*float64(b.N)/time.Since(start).Seconds(), "tokens/s")
		})
	}
}
