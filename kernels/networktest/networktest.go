// Package networktest is the suite that every kernels.Networks runs: each operation against a slow oracle in
// float64 over random shapes and views, the independence of an image's bits from everything around it, calls
// that do not fit, random programs, and benchmarks.
package networktest

import (
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// Open makes a backend, which is a kernels.Networks, for one test and arranges for its Close.
type Open = func(t testing.TB) kernels.Backend

// Run tests every operation of the backend that open returns.
func Run(t *testing.T, open Open) {
	s := suite{open}
	t.Run("Filter", s.testFilter)
	t.Run("Pack", s.testPack)
	t.Run("Conv", s.testConv)
	t.Run("ConvThen", s.testConvThen)
	t.Run("ConvBackward", s.testConvBackward)
	t.Run("Pool", s.testPool)
	t.Run("PoolBackward", s.testPoolBackward)
	t.Run("PoolTies", s.testPoolTies)
	t.Run("Interpolate", s.testInterpolate)
	t.Run("MatMul", s.testMatMul)
	t.Run("Reduce", s.testReduce)
	t.Run("Map", s.testMap)
	t.Run("Copies", s.testCopies)
	t.Run("Import", s.testImport)
	t.Run("Elements", s.testElements)
	t.Run("Programs", s.testPrograms)
	t.Run("Empty", s.testEmpty)
	t.Run("Apart", s.testApart)
	t.Run("Malformed", s.testMalformed)
	t.Run("Free", s.testFree)
}

type suite struct{ open Open }

// device is a backend with the test that uses it and a source of inputs seeded by the test's name.
type device struct {
	kernels.Networks
	t      testing.TB
	random *rand.Rand
}

func newDevice(t testing.TB, open Open) *device {
	t.Helper()
	b, err := kernels.NetworksOf(open(t))
	if err != nil {
		t.Fatal(err)
	}
	name := fnv.New64a()
	name.Write([]byte(t.Name()))
	return &device{b, t, rand.New(rand.NewPCG(name.Sum64(), 1))}
}

// inSubtest is the device in a subtest, which stays on its thread: a GPU's context is current on one.
func (d *device) inSubtest(t *testing.T) *device {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	return &device{d.Networks, t, d.random}
}

// syncOrFail fails the test if an operation has failed.
func (d *device) syncOrFail() {
	d.t.Helper()
	if err := d.Sync(); err != nil {
		d.t.Fatalf("Sync: %v", err)
	}
}

// upTo is a number from 0 to n.
func (d *device) upTo(n int) int { return d.random.IntN(n + 1) }

// pickChoice is any of the choices.
func pickChoice[T any](d *device, choices ...T) T { return choices[d.random.IntN(len(choices))] }
