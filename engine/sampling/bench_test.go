package sampling

import (
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// BenchmarkChoose answers with the five likeliest of Qwen2.5's vocabulary.
func BenchmarkChoose(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	logits := make([]float32, 151936)
	for i := range logits {
		logits[i] = float32(3 * random.NormFloat64())
	}
	for b.Loop() {
		if _, err := SampleToken(logits, nil, &engine.Ask{Top: 5}, 0, nil); err != nil {
			b.Fatal(err)
		}
	}
}
