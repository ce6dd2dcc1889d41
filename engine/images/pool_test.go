package images

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// TestPool holds sizes to the definition: each value belongs to the block that its middle is in, and counts by what a pixel's step of one changes.
func TestPool(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		shape := []int{1, 3, 8 + r.IntN(30), 8 + r.IntN(30)}
		o := Options{Letterbox: n%2 == 0, Scale: []float64{2, 4, 8}}
		if n%4 < 2 {
			shape = []int{1, shape[2], shape[3], 3}
		}
		to, err := NewTarget(engine.FP32, shape, o)
		if err != nil {
			t.Fatal(err)
		}
		height, width, block := 1+r.IntN(100), 1+r.IntN(100), 1+r.IntN(20)
		d := make([]float32, 3*to.Height*to.Width)
		for i := range d {
			d[i] = r.Float32() - 0.5
		}
		got, rows, columns := to.Pool(d, shape, height, width, block)
		want := make([]float64, rows*columns)
		inner, across := to.Inner(to.Height, to.Width, height, width)
		for i, v := range d {
			y, x, c := i/3/to.Width, i/3%to.Width, i%3
			if to.ChannelsFirst {
				y, x, c = i/to.Width%to.Height, i%to.Width, i/to.Width/to.Height
			}
			if y >= inner || x >= across {
				continue
			}
			py, px := (float64(y)+0.5)/float64(inner)*float64(height), (float64(x)+0.5)/float64(across)*float64(width)
			want[int(py+1e-9)/block*columns+int(px+1e-9)/block] += math.Pow(float64(v)/[]float64{2, 4, 8}[c], 2)
		}
		for i := range want {
			want[i] = math.Sqrt(want[i])
			if math.Abs(float64(got[i])-want[i]) > 1e-3*(1+want[i]) {
				t.Fatalf("%v of %d x %d by %d: block %d has %v, want %v", shape, height, width, block, i, got[i], want[i])
			}
		}
	}
}
