package oneadapt

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/media"
)

func randomFrame(r *rand.Rand, width, height int) *media.Frame {
	f := media.NewFrame(width, height)
	for i := range f.Y {
		f.Y[i] = byte(r.IntN(256))
	}
	return f
}

// TestChanges holds changes of each part to the definition: macroblocks, of which those at the edges may be cut, or parts of another number.
func TestChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct{ width, height, columns, rows int }{{64, 48, 4, 3}, {70, 50, 5, 4}, {60, 60, 2, 3}} {
		m := randomMap(r, test.columns, test.rows)
		a := []*media.Frame{randomFrame(r, test.width, test.height), randomFrame(r, test.width, test.height)}
		b := []*media.Frame{randomFrame(r, test.width, test.height), a[1]}
		got, err := Changes(m, a, b, true)
		if err != nil {
			t.Fatal(err)
		}
		squares, counts := make([]float64, len(m.Values)), make([]float64, len(m.Values))
		for i := range test.width * test.height {
			x, y := i%test.width, i/test.width
			column, row := x/16, y/16
			if test.columns == 2 {
				column, row = x*2/test.width, y*3/test.height
			}
			d := float64(a[0].Y[y*a[0].YStride+x]) - float64(b[0].Y[y*b[0].YStride+x])
			squares[row*test.columns+column] += d * d
			counts[row*test.columns+column]++
		}
		sum := 0.0
		for i, v := range m.Values {
			squares[i] *= float64(v) * float64(v) / counts[i] / 2 * ofRGB * ofRGB
			sum += squares[i]
		}
		for i, s := range squares {
			if want := s / math.Sqrt(sum); math.Abs(got[i]-want) > 1e-6*(1+want) {
				t.Errorf("%v: part %d changes by %v, want %v", test, i, got[i], want)
			}
		}
		whole, err := Changes(m, a, b, false)
		if err != nil || len(whole) != 1 || math.Abs(whole[0]-math.Sqrt(sum)) > 1e-6*whole[0] {
			t.Errorf("%v: all together change by %v, %v; want %v", test, whole, err, math.Sqrt(sum))
		}
	}
	m, f := NewMap(1, 1), randomFrame(r, 32, 32)
	for _, frames := range [][]*media.Frame{nil, {randomFrame(r, 16, 32)}, {f, f}} {
		if _, err := Changes(m, []*media.Frame{f}, frames, false); err == nil {
			t.Errorf("one frame is compared with %d", len(frames))
		}
	}
}

// TestSizes: with signs drawn at random, sums are of the size that is said.
func TestSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	terms, squares := make([]float64, 2000), make([]float64, 4)
	for i := range terms {
		terms[i] = r.ExpFloat64() * float64(1+i%4)
		squares[i%4] += terms[i] * terms[i]
	}
	want, all := Sizes(squares, false)[0], 0.0
	const trials = 2000
	for range trials {
		sum := 0.0
		for _, v := range terms {
			sum += v * float64(1-2*r.IntN(2))
		}
		all += sum * sum / trials
	}
	if got := math.Sqrt(all); math.Abs(got-want) > 0.05*want {
		t.Errorf("sums are of the size %v, want %v", got, want)
	}
	sum := 0.0
	for _, v := range Sizes(squares, true) {
		sum += v
	}
	if math.Abs(sum-want) > 1e-9*want || Sizes(make([]float64, 2), true)[1] != 0 {
		t.Errorf("the shares of %v add up to %v", want, sum)
	}
}

// TestShown: frames that were not sent are those before them, and all have the size of what was captured.
func TestShown(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	whole, large, small := randomFrame(r, 32, 32), randomFrame(r, 32, 32), randomFrame(r, 16, 16)
	scaled := randomFrame(r, 32, 32)
	scale := func(f *media.Frame, width, height int) (*media.Frame, error) {
		if f != small || width != 32 || height != 32 {
			return nil, errors.New("what should not be scaled is")
		}
		return scaled, nil
	}
	got, err := Shown([]*media.Frame{large, small}, []int{0, 3}, 5, whole, scale)
	if want := []*media.Frame{large, large, large, scaled, scaled}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err = Shown([]*media.Frame{large}, []int{2}, 4, whole, scale); err != nil || !slices.Equal(got, slices.Repeat([]*media.Frame{large}, 4)) {
		t.Errorf("before the first that was sent: %v, %v", got, err)
	}
	if _, err := Shown([]*media.Frame{large}, []int{0, 1}, 4, whole, scale); err == nil {
		t.Error("two frames were sent, and one came out")
	}
}
