package tensorparallel_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// pass is a product over ranks, enough to make them meet.
type pass struct {
	kernels.Backend
	x, src kernels.Mat
	l      kernels.Linear
}

const passRows, passCols = 4, 64

func newPass(t *testing.T, b kernels.Backend) *pass {
	t.Helper()
	p := &pass{Backend: b}
	weights := kernels.HostTensor{Name: "ones", Rows: passCols, Cols: passCols}
	for range passCols * passCols {
		weights.Data = binary.LittleEndian.AppendUint32(weights.Data, math.Float32bits(1))
	}
	var err error
	if p.l, err = kernels.NewOutputLinear(b, []kernels.HostTensor{weights}, nil); err != nil {
		t.Fatal(err)
	}
	mat := func(typ kernels.DType) kernels.Mat {
		buf, err := b.Alloc(passRows * passCols * typ.Size())
		if err != nil {
			t.Fatal(err)
		}
		return kernels.Mat{Buf: buf, Rows: passRows, Cols: passCols, Stride: passCols, Type: typ}
	}
	p.x, p.src = mat(kernels.F32), mat(b.ActType())
	ones := make([]byte, 0, passRows*passCols*p.src.Type.Size())
	for range passRows * passCols {
		if p.src.Type == kernels.F32 {
			ones = binary.LittleEndian.AppendUint32(ones, math.Float32bits(1))
		} else {
			ones = binary.LittleEndian.AppendUint16(ones, 0x3f80)
		}
	}
	b.Write(p.src.Buf, 0, ones)
	return p
}

// run adds the product n times and returns what Sync says.
func (p *pass) run(n int) error {
	p.Write(p.x.Buf, 0, make([]byte, 4*passRows*passCols))
	for range n {
		p.AddLinear(p.x, p.src, p.l)
	}
	return p.Sync()
}

// wantSum fails the test unless n products were added in full.
func (p *pass) wantSum(t *testing.T, n int) {
	t.Helper()
	if err := p.run(n); err != nil {
		t.Fatalf("a pass without failure: %v", err)
	}
	raw := make([]byte, 4)
	p.Read(raw, p.x.Buf, 4*(passRows*passCols-1))
	if got := math.Float32frombits(binary.LittleEndian.Uint32(raw)); got != float32(n*passCols) {
		t.Errorf("the sum is %g, want %d", got, n*passCols)
	}
}

// within fails the test when f takes longer.
func within(t *testing.T, limit time.Duration, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }() // ends with f, or the test with it
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		t.Fatalf("still waiting after %v", limit)
		return nil
	}
}

// faulty is a rank whose fault comes before each product.
type faulty struct {
	kernels.Rank
	fault func()
}

func (f *faulty) Product(dst, src kernels.Mat, l kernels.Linear) {
	if f.fault != nil {
		f.fault()
	}
	f.Rank.Product(dst, src, l)
}

// withFaulty opens three ranks of which the second is faulty.
func withFaulty(t *testing.T, o tensorparallel.Options) (*tensorparallel.Backend, *faulty) {
	t.Helper()
	f := &faulty{Rank: ref.New().(kernels.Rank)}
	b, err := tensorparallel.New([]opener{openRef, func() (kernels.Rank, error) { return f, nil }, openRef}, tensorparallel.JoinShared, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, f
}

// TestPanicFailsThePass: a rank that panics fails the pass, the others do not wait for it, and the
// next pass is whole.
func TestPanicFailsThePass(t *testing.T) {
	b, f := withFaulty(t, tensorparallel.Options{})
	p := newPass(t, b)
	calls := 0
	for range 3 {
		f.fault = func() {
			if calls++; calls%3 == 0 {
				panic("a defect")
			}
		}
		err := within(t, 10*time.Second, func() error { return p.run(10) })
		if err == nil || !strings.Contains(err.Error(), "rank 1 (ref): panic: a defect") {
			t.Fatalf("error %v", err)
		}
		f.fault = nil
		p.wantSum(t, 10)
	}
}

// TestStuckRankFailsThePass: a rank that does not get on fails the pass after the timeout; once it
// goes on, so do passes.
func TestStuckRankFailsThePass(t *testing.T) {
	b, f := withFaulty(t, tensorparallel.Options{Timeout: 100 * time.Millisecond})
	p := newPass(t, b)
	goOn := make(chan bool)
	f.fault = func() { <-goOn }
	time.AfterFunc(2500*time.Millisecond, func() { close(goOn) })
	err := within(t, 20*time.Second, func() error { return p.run(3) })
	if err == nil || !strings.Contains(err.Error(), "no rank has made progress for") {
		t.Fatalf("error %v", err)
	}
	p.wantSum(t, 5)
}

// TestDeadRankEndsTheRunner: ranks that never get on are given up, with an error that ends the
// executor.
func TestDeadRankEndsTheRunner(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the ranks are given up")
	}
	b, f := withFaulty(t, tensorparallel.Options{Timeout: 10 * time.Millisecond})
	p := newPass(t, b)
	goOn := make(chan bool)
	defer close(goOn)
	f.fault = func() { <-goOn }
	err := within(t, 60*time.Second, func() error { return p.run(3) })
	var lost interface{ DeviceLost() bool }
	if !errors.As(err, &lost) || !lost.DeviceLost() {
		t.Fatalf("error %v does not say that the ranks are lost", err)
	}
	if err := within(t, time.Second, func() error { return p.run(1) }); !errors.As(err, &lost) {
		t.Errorf("a later pass: error %v", err)
	}
}

// TestOpenFails: a rank that cannot be opened is named, and the others are closed.
func TestOpenFails(t *testing.T) {
	closed := make(chan bool, 1)
	_, err := tensorparallel.New([]opener{
		func() (kernels.Rank, error) { return &closing{ref.New().(kernels.Rank), closed}, nil },
		func() (kernels.Rank, error) { return nil, errors.New("no such device") },
	}, tensorparallel.JoinShared, tensorparallel.Options{})
	if err == nil || !strings.Contains(err.Error(), "rank 1: no such device") {
		t.Errorf("error %v", err)
	}
	if len(closed) != 1 {
		t.Error("the rank that was opened is not closed")
	}
}

type closing struct {
	kernels.Rank
	closed chan bool
}

func (c *closing) Close() { c.closed <- true }

// TestNCCLFails: when NCCL fails on one GPU, at once or beside the calls, the pass fails on all, and
// the GPUs are joined again for the next.
func TestNCCLFails(t *testing.T) {
	for failure, want := range map[string]string{
		"gather:1:3": "rank 1 (simt): NCCL: gather: unhandled system error",
		"async:0:2":  "NCCL: a rank failed: remote process exited",
	} {
		t.Run(failure, func(t *testing.T) {
			b := simulatedGPUs(t, 2, tensorparallel.Options{})(t)
			p := newPass(t, b)
			t.Setenv("FAKE_NCCL", failure)
			err := within(t, 10*time.Second, func() error { return p.run(8) })
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("error %v, want %q", err, want)
			}
			t.Setenv("FAKE_NCCL", "")
			p.wantSum(t, 8)
		})
	}
}
