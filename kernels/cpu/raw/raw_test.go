//go:build cgo && linux && amd64

package raw_test

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cpu/raw"
)

// BenchmarkRate gives the best rate of every instruction on one thread and on two at once. Two that reach less
// than twice one thread's rate share a unit, or its power.
func BenchmarkRate(b *testing.B) {
	for i := raw.VFMADD8; i <= raw.TDPBSSD; i++ {
		b.Run(i.String(), func(b *testing.B) {
			if !i.Supported() {
				b.Skip("this processor lacks it")
			}
			one, two := 0.0, 0.0
			for b.Loop() {
				one, two = max(one, i.Rate(1)), max(two, i.Rate(2))
			}
			b.ReportMetric(one, "GFLOP/s")
			b.ReportMetric(two, "GFLOP/s-of-two")
			b.ReportMetric(two/one, "ratio")
		})
	}
}

func TestEveryInstructionRuns(t *testing.T) {
	for i := raw.VFMADD8; i <= raw.TDPBSSD; i++ {
		if i.Supported() && i.Rate(1) <= 0 {
			t.Errorf("%v has no rate", i)
		}
	}
}
