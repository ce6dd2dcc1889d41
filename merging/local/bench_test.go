//go:build cgo

package local

import (
	"context"
	"testing"

	"github.com/prefillonly/prefillonly/merging"
)

// BenchmarkStep trains an adopter of all layers that its donor has: steps of eight frames, each answered by the original, forward and backward.
func BenchmarkStep(b *testing.B) {
	toyModels, _ := toys(b, 60)
	for name, models := range map[string][]merging.TrainedModel{"drawn": toyModels, "person": pair(data(b))} {
		b.Run(name, func(b *testing.B) {
			opened, err := New(Options{}).Open(context.Background(), models, 1)
			if err != nil {
				b.Fatal(err)
			}
			defer opened.Close()
			if err := opened.Tie(allTied(b, models, 1)); err != nil {
				b.Fatal(err)
			}
			if _, err := opened.Train(context.Background(), []int{0}, 0.001, 0.1); err != nil { // reads the clip and makes plans
				b.Fatal(err)
			}
			step := DefaultBatch / float64(len(opened.(*session).models[0].feed.framesOf(merging.Training)))
			b.ResetTimer()
			for range b.N {
				if _, err := opened.Train(context.Background(), []int{0}, step, 0.1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}
