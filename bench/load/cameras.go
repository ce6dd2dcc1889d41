package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// FrameOptions say which frames are sent, and where.
type FrameOptions struct {
	BaseURL  string // http://host:port
	APIKey   string // empty: no Authorization header
	Model    string
	Cameras  int
	Rate     float64       // frames a second of each
	Deadline time.Duration // after which an answer is late
	Duration time.Duration
	Picture  []byte // a JPEG or PNG that is every frame; nil: a frame of random values of the model's first input
	Best     bool   // deadlines are asked for and not promised
}

// Outcome is what became of a frame.
type Outcome uint8

// The outcomes.
const (
	InTime  Outcome = iota
	Late            // answered after the deadline, or dropped by the server as it would be
	Refused         // not taken: the server said that there is no room for the stream
	Failed
)

// FrameRecord is one frame.
type FrameRecord struct {
	Camera  int
	Due     time.Duration // since the start of the run
	Latency time.Duration // from when it was due to its answer
	Outcome Outcome
	Err     string // of a frame that has no answer
}

// FrameClient sends frames to one server.
type FrameClient struct {
	o    FrameOptions
	base *url.URL
	http *http.Client
	body []byte // of a frame, but for the name of its stream
	head int    // bytes of it that are JSON
	name int    // where in it the stream's name goes
}

// NewFrameClient checks the options.
func NewFrameClient(o FrameOptions) (*FrameClient, error) {
	base, err := parseBaseURL(o.BaseURL)
	switch {
	case err != nil:
		return nil, err
	case o.Cameras < 1 || o.Cameras > 10_000:
		return nil, fmt.Errorf("invalid number of cameras %d: want 1 to 10000", o.Cameras)
	case !(o.Rate > 0) || o.Rate > 1000:
		return nil, fmt.Errorf("invalid frame rate %v: want more than 0, at most 1000", o.Rate)
	case o.Deadline <= 0 || o.Duration <= 0:
		return nil, fmt.Errorf("invalid deadline %v or duration %v: want positive times", o.Deadline, o.Duration)
	}
	return &FrameClient{o: o, base: base, http: newHTTPClient(max(10*o.Deadline, 10*time.Second))}, nil
}

// Close drops the idle connections.
func (c *FrameClient) Close() { c.http.CloseIdleConnections() }

// modelMetadata is what a server says of a model.
type modelMetadata struct {
	Inputs []struct {
		Name     string `json:"name"`
		Datatype string `json:"datatype"`
		Shape    []int  `json:"shape"`
	} `json:"inputs"`
}

// Connect asks the server what frames its model takes.
func (c *FrameClient) Connect(ctx context.Context) error {
	var m modelMetadata
	if err := c.getJSON(ctx, &m, "v2", "models", c.o.Model); err != nil {
		return err
	}
	if len(m.Inputs) != 1 {
		return fmt.Errorf("model %s has %d inputs, want one", c.o.Model, len(m.Inputs))
	}
	in := m.Inputs[0]
	datatype, shape, data := in.Datatype, in.Shape, []byte(nil)
	if c.o.Picture != nil {
		datatype, shape = "BYTES", []int{1}
		data = append([]byte{byte(len(c.o.Picture)), byte(len(c.o.Picture) >> 8), byte(len(c.o.Picture) >> 16), byte(len(c.o.Picture) >> 24)}, c.o.Picture...)
	} else {
		if datatype != "FP32" {
			return fmt.Errorf("input %s of model %s has type %s: give a picture", in.Name, c.o.Model, datatype)
		}
		var err error
		if data, err = randomFrame(shape); err != nil {
			return fmt.Errorf("input %s of model %s: %w", in.Name, c.o.Model, err)
		}
	}
	return c.encodeFrameBody(in.Name, datatype, shape, data)
}

// encodeFrameBody makes the body that all frames have.
func (c *FrameClient) encodeFrameBody(name, datatype string, shape []int, data []byte) error {
	const stream = "camera 00000"
	head, err := json.Marshal(map[string]any{
		"parameters": map[string]any{"timeout": c.o.Deadline.Microseconds(), "stream": stream, "promised": !c.o.Best, "binary_data_output": true},
		"inputs":     []any{map[string]any{"name": name, "datatype": datatype, "shape": shape, "parameters": map[string]any{"binary_data_size": len(data)}}},
	})
	if err != nil {
		return err
	}
	c.head, c.name = len(head), bytes.Index(head, []byte(stream))+len("camera ")
	c.body = append(head, data...)
	return nil
}

// Seconds is what the server has computed of the model so far, and how many frames that were.
func (c *FrameClient) Seconds(ctx context.Context) (seconds float64, frames int, err error) {
	var s struct {
		Models []struct {
			Stats struct {
				Compute struct {
					Count int
					NS    int64
				} `json:"compute_infer"`
			} `json:"inference_stats"`
		} `json:"model_stats"`
	}
	if err := c.getJSON(ctx, &s, "v2", "models", c.o.Model, "stats"); err != nil {
		return 0, 0, err
	}
	for _, m := range s.Models {
		seconds += float64(m.Stats.Compute.NS) / 1e9
		frames += m.Stats.Compute.Count
	}
	return seconds, frames, nil
}

func (c *FrameClient) getJSON(ctx context.Context, to any, path ...string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath(path...).String(), nil)
	if err != nil {
		return err
	}
	status, body, err := c.sendAuthorized(request)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s answers %d: %s", request.URL, status, inferenceErrorReason(body))
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("%s: %w", request.URL, err)
	}
	return nil
}

func (c *FrameClient) sendAuthorized(request *http.Request) (status int, body []byte, err error) {
	if c.o.APIKey != "" {
		request.Header.Set("Authorization", "Bearer "+c.o.APIKey)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// Run sends the frames of all cameras, whose phases are spread over a period, and returns their records in the order
// in which they were due. A cancelled context ends the run early.
func (c *FrameClient) Run(ctx context.Context) []FrameRecord {
	period := time.Duration(float64(time.Second) / c.o.Rate)
	var all []FrameRecord
	for at := time.Duration(0); at < c.o.Duration; at += period {
		for camera := range c.o.Cameras {
			all = append(all, FrameRecord{Camera: camera, Due: at + period*time.Duration(camera)/time.Duration(c.o.Cameras)})
		}
	}
	var senders sync.WaitGroup // each ends within the client's timeout
	start := time.Now()
	for i := range all {
		timer := time.NewTimer(time.Until(start.Add(all[i].Due)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			senders.Wait()
			return all[:i]
		}
		senders.Go(func() { c.sendFrame(ctx, start, &all[i]) })
	}
	senders.Wait()
	return all
}

// sendFrame sends a frame and notes what became of it.
func (c *FrameClient) sendFrame(ctx context.Context, start time.Time, r *FrameRecord) {
	body := bytes.Clone(c.body)
	copy(body[c.name:], fmt.Sprintf("%05d", r.Camera))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath("v2", "models", c.o.Model, "infer").String(), bytes.NewReader(body))
	if err != nil {
		r.Outcome, r.Err = Failed, err.Error()
		return
	}
	request.Header.Set("Inference-Header-Content-Length", strconv.Itoa(c.head))
	status, answer, err := c.sendAuthorized(request)
	r.Latency = time.Since(start) - r.Due
	switch {
	case errors.Is(err, context.Canceled):
		r.Outcome, r.Err = Failed, "cancelled"
	case err != nil:
		r.Outcome, r.Err = Failed, err.Error()
	case status == http.StatusTooManyRequests:
		r.Outcome, r.Err = Refused, inferenceErrorReason(answer)
	case status == http.StatusGatewayTimeout:
		r.Outcome, r.Err = Late, cmp.Or(inferenceErrorReason(answer), "dropped as late")
	case status != http.StatusOK:
		r.Outcome, r.Err = Failed, fmt.Sprintf("%d: %s", status, inferenceErrorReason(answer))
	case r.Latency > c.o.Deadline:
		r.Outcome = Late
	}
}

// inferenceErrorReason is the text of an error's body, or the body's beginning.
func inferenceErrorReason(body []byte) string {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &e) == nil && e.Error != "" {
		return e.Error
	}
	return string(body[:min(len(body), 200)])
}
