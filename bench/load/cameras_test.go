package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// server answers frames of each camera in a way of its own, and notes what they are.
type server struct {
	mu     sync.Mutex
	frames map[string]int
	faults []string
	input  string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v2/models/net":
		fmt.Fprint(w, s.input)
		return
	case "/v2/models/net/stats":
		fmt.Fprint(w, `{"model_stats":[{"inference_stats":{"compute_infer":{"count":4,"ns":2000000000}}}]}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	head, _ := strconv.Atoi(r.Header.Get("Inference-Header-Content-Length"))
	var q struct {
		Parameters struct {
			Timeout  int64
			Stream   string
			Promised bool
		}
		Inputs []struct {
			Name, Datatype string
			Shape          []int
			Parameters     struct {
				Size int `json:"binary_data_size"`
			}
		}
	}
	err := json.Unmarshal(body[:head], &q)
	s.mu.Lock()
	s.frames[q.Parameters.Stream]++
	if err != nil || len(q.Inputs) != 1 || q.Inputs[0].Parameters.Size != len(body)-head || q.Parameters.Timeout != 200_000 || !q.Parameters.Promised {
		s.faults = append(s.faults, fmt.Sprintf("%v: %s", err, body[:head]))
	}
	s.mu.Unlock()
	switch q.Parameters.Stream {
	case "camera 00001":
		time.Sleep(300 * time.Millisecond)
	case "camera 00002":
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":"no room"}`)
	case "camera 00003":
		w.WriteHeader(http.StatusGatewayTimeout)
	case "camera 00004":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"odd"}`)
	}
}

func TestOutcomes(t *testing.T) {
	s := &server{frames: map[string]int{}, input: `{"inputs":[{"name":"x","datatype":"FP32","shape":[-1,3,4,5]}]}`}
	web := httptest.NewServer(s)
	defer web.Close()
	for _, picture := range [][]byte{nil, []byte("a picture")} {
		clear(s.frames)
		c, err := NewFrameClient(FrameOptions{BaseURL: web.URL, Model: "net", Cameras: 5, Rate: 20, Deadline: 200 * time.Millisecond, Duration: 500 * time.Millisecond, Picture: picture})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		records := c.Run(t.Context())
		sum := SummarizeFrames(records)
		c.Close()
		if len(records) != 50 || len(s.frames) != 5 || len(s.faults) > 0 {
			t.Fatalf("%d frames of %v; %q", len(records), s.frames, s.faults)
		}
		for _, r := range records {
			want := [...]Outcome{InTime, Late, Refused, Late, Failed}[r.Camera]
			if r.Outcome != want || r.Latency <= 0 {
				t.Errorf("a frame of camera %d due at %v was %v after %v, want %v", r.Camera, r.Due, r.Outcome, r.Latency, want)
			}
		}
		if sum.Counts != [...]int{10, 20, 10, 10} || len(sum.Latency) != 20 || sum.Worst == "" {
			t.Errorf("%+v", sum)
		}
		if seconds, frames, err := c.Seconds(t.Context()); seconds != 2 || frames != 4 || err != nil {
			t.Errorf("the server computed %v s of %d frames, %v", seconds, frames, err)
		}
	}
}

// TestRunEnds: a cancelled run returns what it has.
func TestRunEnds(t *testing.T) {
	s := &server{frames: map[string]int{}, input: `{"inputs":[{"name":"x","datatype":"FP32","shape":[1]}]}`}
	web := httptest.NewServer(s)
	defer web.Close()
	c, err := NewFrameClient(FrameOptions{BaseURL: web.URL, Model: "net", Cameras: 1, Rate: 10, Deadline: 200 * time.Millisecond, Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	if n := len(c.Run(ctx)); n < 1 || n > 4 {
		t.Errorf("%d frames in 250 ms", n)
	}
}

func TestBadOptions(t *testing.T) {
	good := FrameOptions{BaseURL: "http://localhost:1", Model: "m", Cameras: 1, Rate: 1, Deadline: 1, Duration: 1}
	for want, change := range map[string]func(*FrameOptions){
		"base URL":                    func(o *FrameOptions) { o.BaseURL = "localhost:1" },
		"invalid number of cameras 0": func(o *FrameOptions) { o.Cameras = 0 },
		"invalid frame rate -1":       func(o *FrameOptions) { o.Rate = -1 },
		"invalid deadline 0s":         func(o *FrameOptions) { o.Deadline = 0 },
		"duration -1ns":               func(o *FrameOptions) { o.Duration = -1 },
	} {
		o := good
		change(&o)
		if _, err := NewFrameClient(o); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	s := &server{}
	web := httptest.NewServer(s)
	defer web.Close()
	for input, want := range map[string]string{
		`{"inputs":[]}`: "has 0 inputs",
		`{"inputs":[{"name":"x","datatype":"INT64","shape":[1]}]}`:               "give a picture",
		`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,-1]}]}`:             "leaves the size of a frame open",
		`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,99999999,99999]}]}`: "too large",
		`{`: "unexpected end",
	} {
		s.input = input
		o := good
		o.BaseURL, o.Model = web.URL, "net"
		c, err := NewFrameClient(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", input, err, want)
		}
	}
}
