package kerneltest

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// RunMixtures tests the operations that kernels.Mixtures adds, of the backend that open returns.
func RunMixtures(t *testing.T, open Open) {
	s := suite{open: open}
	t.Run("Rows", s.testListedRows)
	t.Run("Malformed", s.testMalformedLists)
}

// requireMixtures is the backend, which must be one.
func requireMixtures(d *fixture) kernels.Mixtures {
	d.T.Helper()
	m, err := kernels.MixturesOf(d.Backend)
	if err != nil {
		d.T.Fatal(err)
	}
	return m
}

// testListedRows picks rows in random orders, some of them several times, and adds rows to others, each once.
func (s suite) testListedRows(t *testing.T) {
	for _, shape := range [][3]int{{1, 1, 3}, {5, 9, 77}, {70, 40, 130}, {600, 513, 768}} {
		d, all, some, cols := newFixture(t, s.open(t)), shape[0], shape[1], shape[2]
		values := Rounded(kernels.F32, d.Normal(all*cols, 2))
		x, picked := d.Mat(kernels.F32, all, cols, values), d.Mat(kernels.F32, some, cols, nil)
		var rows []int32
		var want []float64
		for range some {
			r := d.Random.IntN(all)
			rows, want = append(rows, int32(r)), append(want, values[r*cols:(r+1)*cols]...)
		}
		requireMixtures(d).PickRows(picked, x, rows)
		checkValues(d.T, "picked", Tolerance{}, d.Values(picked), want)

		some = min(some, all)
		src := Rounded(kernels.F32, d.Normal(some*cols, 30))
		rows = rows[:0]
		var scale []float32
		want = append([]float64(nil), values...)
		for i, r := range d.Random.Perm(all)[:some] {
			rows, scale = append(rows, int32(r)), append(scale, float32(d.Normal(1, 1)[0]))
			for j := range cols {
				want[r*cols+j] += float64(scale[i]) * src[i*cols+j]
			}
		}
		requireMixtures(d).AddScaledRows(x, d.Mat(kernels.F32, some, cols, src), rows, scale)
		checkValues(d.T, "added", Tolerance{Max: 1e-6, RMS: 1e-6}, d.Values(x), want)
	}
}

// testMalformedLists: lists that do not fit are an error of Sync.
func (s suite) testMalformedLists(t *testing.T) {
	d := newFixture(t, s.open(t))
	m := requireMixtures(d)
	two, three := d.Mat(kernels.F32, 2, 8, nil), d.Mat(kernels.F32, 3, 8, nil)
	for what, call := range map[string]func(){
		"a row beyond the last":         func() { m.PickRows(two, three, []int32{0, 3}) },
		"a row below the first":         func() { m.AddScaledRows(three, two, []int32{-1, 0}, []float32{1, 1}) },
		"more rows than there are":      func() { m.PickRows(two, three, []int32{0, 1, 2}) },
		"fewer factors than rows":       func() { m.AddScaledRows(three, two, []int32{0, 1}, []float32{1}) },
		"matrices of different widths":  func() { m.PickRows(d.Mat(kernels.F32, 1, 7, nil), three, []int32{0}) },
		"a matrix of the wrong heights": func() { m.AddScaledRows(three, two, []int32{0}, []float32{1}) },
	} {
		if call(); d.Sync() == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
