package inference

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// kept are blobs that nobody reads.
type kept struct{}

func (kept) PutFor(string, []byte) (string, error) { return "b", nil }
func (kept) Release(string)                        {}

// eye is a pool whose model takes pictures of 30 x 40, and does not answer.
func eye(t *testing.T, cfg Config) (*world, *clienttest.Scheduler) {
	s := clienttest.NewScheduler(nil)
	pool := client.New(client.Config{Inputs: kept{}}, s, zap.NewNop())
	s.Deliver = pool.Deliver
	pool.Deliver(&wire.Welcome{Epoch: 1, Models: 1, Served: []wire.Served{{Name: "eye", State: wire.ModelReady, Executors: 1, Tensors: &wire.TensorLimits{
		Inputs: []wire.TensorSpec{{Name: "x", Type: engine.FP32, Shape: []int{-1, 3, 30, 40}}}, Outputs: []wire.TensorSpec{{Name: "y", Type: engine.FP32, Shape: []int{-1}}},
	}}}})
	return &world{New(cfg), pool}, s
}

// world is a Service over a pool.
type world struct {
	*Service
	pool *client.Client
}

// origin is that of a request which arrives now, of an owner whose streams are kept apart from those of others.
func origin(t *testing.T) request.Origin {
	keys, err := apikey.NewRing([]string{"mine", "yours"}, "", apikey.IsolateKeys)
	if err != nil {
		t.Fatal(err)
	}
	mine, _ := keys.Find("mine")
	return request.Origin{Arrived: time.Now(), Model: "eye", Owner: mine}
}

// admit prepares and admits a request.
func (w *world) admit(t *testing.T, from request.Origin, body []byte, header int) (*Call, error) {
	c, err := w.Prepare(t.Context(), request.New(w.pool, from), images.Options{}, body, header)
	if err != nil {
		return nil, err
	}
	if err := c.Admit(t.Context()); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func picture(t *testing.T, height, width int) []byte {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func code(err error) engine.Code {
	var failed *engine.Error
	if errors.As(err, &failed) {
		return failed.Code
	}
	return 0
}

// TestMemory holds that pictures wait for memory outside, are told the figures, and leave nothing behind, whether they
// can be decoded or not.
func TestMemory(t *testing.T) {
	const input = 3 * 30 * 40 * 4
	s, _ := eye(t, Config{Memory: input + images.Memory(50, 50)})
	c, err := s.admit(t, origin(t), picture(t, 50, 50), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.admit(t, origin(t), picture(t, 50, 50), 0); code(err) != engine.CodeOverloaded || !strings.Contains(err.Error(), fmt.Sprintf("%d of the %d", input, input+40000)) {
		t.Errorf("beyond the bound: %v", err)
	}
	if err := c.Submit(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for range 3 {
		broken := picture(t, 50, 50)
		if _, err := s.admit(t, origin(t), broken[:len(broken)-20], 0); err == nil || code(err) != 0 {
			t.Errorf("a broken picture: %v", err)
		}
	}
	if held := s.memory.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	s, _ = eye(t, Config{MaxInputs: input})
	two := `{"inputs":[{"name":"x","datatype":"UINT8","shape":[2,1,1,3],"data":[1,2,3,4,5,6]}]}`
	if _, err := s.admit(t, origin(t), []byte(two), -1); err == nil || !strings.Contains(err.Error(), fmt.Sprint("2 pictures become ", 2*input)) {
		t.Errorf("two pictures of one: %v", err)
	}
}

// TestTurns holds that a picture whose deadline passes while others are decoded is given up.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := processors.New(1)
		s, _ := eye(t, Config{Processors: all})
		for range 2 { // and one more, as it is short
			if _, ok := all.Try(processors.Stage{Takes: time.Millisecond}); !ok {
				t.Fatal("no processor is free")
			}
		}
		from := origin(t)
		from.Deadline = 40 * time.Millisecond
		begun := time.Now()
		_, err := s.admit(t, from, picture(t, 500, 500), 0)
		if took := time.Since(begun); code(err) != engine.CodeDeadline || took > 40*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestJobs holds what parameters make of a job.
func TestJobs(t *testing.T) {
	salted := origin(t).Owner.Salt("a")
	for parameters, want := range map[string]engine.Job{
		``:                                 {},
		`"priority":1`:                     {Priority: -99},
		`"priority":100`:                   {},
		`"priority":18446744073709551615`:  {Priority: 1<<31 - 100},
		`"stream":"a"`:                     {Stream: `"eye"/` + salted},
		`"timeout":60000000`:               {Deadline: time.Minute},
		`"stream":"a","timeout":60000000`:  {Stream: `"eye"/` + salted, Deadline: time.Minute, Promised: true},
		`"stream":"a","timeout":120000000`: {Stream: `"eye"/` + salted, Deadline: 90 * time.Second, Promised: true},
		`"stream":"a","timeout":60000000,"promised":false`: {Stream: `"eye"/` + salted, Deadline: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, scheduler := eye(t, Config{})
			from := origin(t)
			if strings.Contains(parameters, "120000000") {
				from.Deadline = 90 * time.Second // a header's
			}
			time.Sleep(10 * time.Millisecond) // in which the body came
			body := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"UINT8","shape":[2,1,1,3],"data":[1,2,3,4,5,6]}],"parameters":{%s}}`, parameters)
			c, err := s.admit(t, from, []byte(body), -1)
			if err == nil {
				err = c.Submit()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			submits, _ := scheduler.Seen()
			got := submits[0].Job
			if got.Work.Units() != 2 || c.Record.Frames.Count != 2 {
				t.Errorf("%s: %v frames", parameters, got.Work.Units())
			}
			if want.Deadline > 0 {
				want.Deadline -= 10 * time.Millisecond
			}
			want.ID, want.Model, want.Work = got.ID, "eye", got.Work
			if got != want {
				t.Errorf("%s: got %+v, want %+v", parameters, got, want)
			}
		})
	}
}

func TestRawShape(t *testing.T) {
	for _, c := range []struct {
		spec []int
		size int
		want string
	}{
		{[]int{-1, 3, 2}, 12, "[1 3 2]"},
		{[]int{-1, 3, -1}, 12, "[1 3 2]"},
		{[]int{-1}, 2, "[1]"},
		{[]int{}, 2, "[]"},
		{[]int{-1, 3, 2}, 24, "24 bytes"},
		{[]int{-1, 3, -1}, 13, "13 bytes"},
		{[]int{-1, 3, -1}, 0, "0 bytes"},
		{[]int{-1, -1, -1}, 12, "more than one"},
		{[]int{1 << 40, 1 << 40}, 12, "12 bytes"},
	} {
		shape, err := rawShape(&wire.TensorSpec{Name: "x", Type: engine.FP16, Shape: c.spec}, c.size)
		if got := fmt.Sprint(shape, err); !strings.Contains(got, c.want) {
			t.Errorf("%v with %d bytes: %s, want %s", c.spec, c.size, got, c.want)
		}
	}
}

func TestMaxBatch(t *testing.T) {
	spec := func(shape ...int) []wire.TensorSpec { return []wire.TensorSpec{{Shape: shape}} }
	for _, c := range []struct {
		in, out []wire.TensorSpec
		want    int
	}{
		{spec(-1, 3), spec(-1, 2), 8}, {spec(1, 3), spec(1, 2), 1}, {spec(-1, 3), spec(5, 2), 0}, {spec(4), spec(4), 0}, {spec(), spec(), 0},
	} {
		if got := maxBatch(&wire.TensorLimits{Inputs: c.in, Outputs: c.out, MaxPassItems: 8}); got != c.want {
			t.Errorf("%v to %v: %d, want %d", c.in, c.out, got, c.want)
		}
	}
}
