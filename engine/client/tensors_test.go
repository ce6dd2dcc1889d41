package client

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/blob"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// doubler is an executor of the model "double", whose output y is twice its input x; both are bytes.
type doubler struct {
	*testing.T
	store  *blob.Store
	reader *blob.Reader
	lose   int             // outputs that are gone before they are fetched
	shape  func(n int) int // of an output; nil: as it is
	inputs []string        // blobs that were read
	last   string          // blob that was put
}

// tensorPool is a client and its executor, which passes blobs through a directory; limit is what inputs may take.
func tensorPool(t *testing.T, limit int64) (*Client, *clienttest.Scheduler, *doubler) {
	t.Helper()
	dir := t.TempDir()
	open := func(cfg blob.Config) *blob.Store {
		cfg.Dir = dir
		s, err := blob.NewStore(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	d := &doubler{T: t, store: open(blob.Config{Limit: 1 << 20, Hold: time.Minute}), reader: blob.NewReader(dir)}
	outputs := blob.NewReader(dir)
	t.Cleanup(func() { d.reader.Close(); outputs.Close() })
	c, s := newClient(Config{Inputs: open(blob.Config{Limit: limit}), Outputs: outputs}, d.answer)
	w := welcome(1)
	w.Served = append(w.Served, wire.Served{Name: "double", State: wire.ModelReady, Executors: 1, Loaded: 1, Tensors: &wire.TensorLimits{
		Inputs:  []wire.TensorSpec{{Name: "x", Type: engine.Uint8, Shape: []int{-1}}},
		Outputs: []wire.TensorSpec{{Name: "y", Type: engine.Uint8, Shape: []int{-1}}},
	}})
	c.Deliver(w)
	return c, s, d
}

func (d *doubler) answer(s *wire.Submit) []*wire.Result {
	x := s.Work.(*engine.Tensors).Inputs[0]
	n, _ := x.Bytes()
	data := make([]byte, n)
	if err := d.reader.Read(x.Blob, data); err != nil {
		d.Errorf("input: %v", err)
	}
	d.inputs = append(d.inputs, x.Blob)
	for i := range data {
		data[i] *= 2
	}
	y, err := d.store.Put(data)
	if err != nil {
		d.Error(err)
	}
	if d.last = y; d.lose > 0 {
		d.lose--
		d.store.Release(y)
	}
	if d.shape != nil {
		n = d.shape(n)
	}
	return []*wire.Result{{Job: s.ID, Output: &engine.TensorOutput{Outputs: []engine.Ref{{Name: "y", Type: engine.Uint8, Shape: []int{n}, Blob: y}}}}}
}

// holds says whether a blob is held still.
func (d *doubler) holds(name string, size int) bool {
	return d.reader.Read(name, make([]byte, size)) == nil
}

func doubling(t *testing.T, c *Client, data []byte) (*Job, *Results) {
	t.Helper()
	results := NewResults()
	work := &engine.Tensors{Inputs: []engine.Ref{{Name: "x", Type: engine.Uint8, Shape: []int{len(data)}}}, Frames: 1}
	j, err := c.NewTensors(engine.Job{Model: "double", Work: work}, [][]byte{data}, time.Now(), results, 5)
	if err != nil {
		t.Fatal(err)
	}
	return j, results
}

// next is the one Delivery that comes.
func next(t *testing.T, results *Results) Delivery {
	t.Helper()
	got, err := results.Next(t.Context(), nil)
	if err != nil || len(got) != 1 || got[0].Index != 5 || got[0].At.IsZero() {
		t.Fatalf("got %+v, %v", got, err)
	}
	return got[0]
}

// TestTensors holds that tensors go to an executor and back, are the caller's again when they are sent, and are
// nowhere kept when the job has ended; and that outputs that are lost are made again, but not for ever.
func TestTensors(t *testing.T) {
	for _, losses := range []int{0, 1, maxGaps, maxGaps + 1} {
		t.Run(fmt.Sprint(losses, " losses"), func(t *testing.T) {
			c, s, d := tensorPool(t, 1<<20)
			d.lose = losses
			data := []byte{1, 2, 3}
			j, results := doubling(t, c, data)
			if err := c.Submit("", []*Job{j}); err != nil {
				t.Fatal(err)
			}
			clear(data)
			got := next(t, results)
			if losses > maxGaps {
				if e := got.Result.Err; e == nil || e.Code != engine.CodeInternal || !strings.Contains(e.Message, "lost for the 4th time: y: blob: read 3 bytes: the blob is gone") {
					t.Errorf("%+v", got.Result.Err)
				}
			} else if got.Result.Err != nil || len(got.Outputs) != 1 || !bytes.Equal(got.Outputs[0], []byte{2, 4, 6}) {
				t.Errorf("%v, %+v", got.Outputs, got.Result.Err)
			}
			submits, _ := s.Seen()
			if len(submits) != min(losses, maxGaps)+1 || openJobs(c) != 0 {
				t.Errorf("%d submits, %d jobs open", len(submits), openJobs(c))
			}
			if waitGone(func() bool { return d.holds(d.inputs[0], 3) || d.holds(d.last, 3) }) {
				t.Error("tensors of a job that has ended are kept")
			}
		})
	}
}

// waitGone reports whether something is still there after a second.
func waitGone(there func() bool) bool {
	for start := time.Now(); there(); time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Second {
			return true
		}
	}
	return false
}

// TestTensorsAgain holds that a new scheduler's executor reads the client's copy again.
func TestTensorsAgain(t *testing.T) {
	c, s, d := tensorPool(t, 1<<20)
	s.Answer = nil
	j, results := doubling(t, c, []byte{7})
	if err := c.Submit("", []*Job{j}); err != nil {
		t.Fatal(err)
	}
	first, _ := s.Seen()
	if got := d.answer(first[0]); got == nil { // an executor reads it; the Result is lost with the scheduler
		t.Fatal("no answer")
	}
	s.Answer = d.answer
	c.Deliver(&wire.Welcome{Epoch: 2})
	if got := next(t, results); got.Result.Err != nil || !bytes.Equal(got.Outputs[0], []byte{14}) {
		t.Errorf("%v, %+v", got.Outputs, got.Result.Err)
	}
	if len(d.inputs) != 2 || d.inputs[0] != d.inputs[1] {
		t.Errorf("%q were read, want one blob twice", d.inputs)
	}
}

// TestTensorsRefused holds that nothing is kept for jobs that are refused or cancelled.
func TestTensorsRefused(t *testing.T) {
	c, s, d := tensorPool(t, 10<<10)
	s.Answer = nil
	small, _ := doubling(t, c, make([]byte, 100))
	large, _ := doubling(t, c, make([]byte, 9000))
	err := c.Submit("", []*Job{small, large})
	if err == nil || err.Code != engine.CodeBadTokens || !strings.Contains(err.Message, "put 9000 bytes") || !strings.Contains(err.Message, "one key may have 10240") {
		t.Errorf("refused with %v", err)
	}
	one, _ := doubling(t, c, make([]byte, 100))
	two, _ := doubling(t, c, make([]byte, 100))
	if err := c.Submit("", []*Job{one, two}); err != nil {
		t.Fatalf("after a refusal that kept nothing: %v", err)
	}
	three, _ := doubling(t, c, make([]byte, 100))
	if err := c.Submit("", []*Job{three}); err == nil || err.Code != engine.CodeOverloaded {
		t.Errorf("a job too many is refused with %v", err)
	}
	submits, _ := s.Seen()
	blobs := []string{submits[0].Work.(*engine.Tensors).Inputs[0].Blob, submits[1].Work.(*engine.Tensors).Inputs[0].Blob}
	if !d.holds(blobs[0], 100) || !d.holds(blobs[1], 100) {
		t.Error("the tensors of open jobs are gone")
	}
	c.Cancel(one)
	if d.holds(blobs[0], 100) || !d.holds(blobs[1], 100) {
		t.Error("not the tensors of the cancelled job alone are gone")
	}
	for _, r := range d.answer(submits[1]) { // cancelled while its outputs are fetched, or before
		c.Deliver(r)
		c.Cancel(two)
	}
	c.fetches.Wait()
	if d.holds(blobs[1], 100) || openJobs(c) != 0 {
		t.Error("the tensors of the cancelled job are kept")
	}
	if _, err := c.NewTensors(engine.Job{Model: "double", Work: one.submit.Work}, [][]byte{make([]byte, 99)}, time.Now(), nil, 0); err == nil ||
		err.Error() != "x has 99 bytes; UINT8 of the shape [100] is 100" {
		t.Errorf("99 bytes of 100 are refused with %v", err)
	}
}

// TestFalseOutputs holds that no size is believed.
func TestFalseOutputs(t *testing.T) {
	for _, n := range []int{-1, 2, 4, maxOutputs + 1, 1 << 62} {
		c, _, d := tensorPool(t, 1<<20)
		d.shape = func(int) int { return n }
		j, results := doubling(t, c, []byte{1, 2, 3})
		if err := c.Submit("", []*Job{j}); err != nil {
			t.Fatal(err)
		}
		var failed *engine.Error
		if got := next(t, results); got.Result.Err == nil || !errors.As(got.Result.Err, &failed) || failed.Code != engine.CodeInternal {
			t.Errorf("an output of %d bytes: %+v", n, got)
		}
	}
}
