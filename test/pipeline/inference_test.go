package pipeline

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/frontend"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/oip"
)

// serveTensors has an HTTP frontend answer by p's client, and returns the URL of its model.
func serveTensors(t *testing.T, p *tensors) string {
	t.Helper()
	f, err := frontend.New(frontend.Config{Name: "web"}, []registry.Model{{Name: faces.Name}}, p.client, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(background(t, func(ctx context.Context) error { return f.Serve(ctx, listener) }))
	return fmt.Sprintf("http://%v/v2/models/%s", listener.Addr(), faces.Name)
}

// infer sends a request in binary and returns the binary data of its answer.
func infer(url, head string, parts ...[]byte) (status int, data []byte, err error) {
	r, err := http.NewRequest(http.MethodPost, url+"/infer", io.MultiReader(bytes.NewReader([]byte(head)), bytes.NewReader(bytes.Join(parts, nil))))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set(oip.HeaderLength, strconv.Itoa(len(head)))
	r.ContentLength = int64(len(head) + len(bytes.Join(parts, nil)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	if data, err = io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return answer.StatusCode, data, err
	}
	n, err := strconv.Atoi(answer.Header.Get(oip.HeaderLength))
	if err != nil || n > len(data) {
		return 0, nil, fmt.Errorf("%d bytes with %v", len(data), answer.Header)
	}
	return answer.StatusCode, data[n:], nil
}

const frameHead = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,50],"parameters":{"binary_data_size":200}}],
	"outputs":[{"name":"y"}],"parameters":{"binary_data_output":true%s}}`

// TestInferenceOverHTTP holds that outputs over HTTP are those of the pool to the bit, in binary and in JSON, and that
// gradients agree with differences of outputs.
func TestInferenceOverHTTP(t *testing.T) {
	p := newTensors(t, "ipc://"+filepath.Join(t.TempDir(), "s"))
	url := serveTensors(t, p)
	want, err := p.ask(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ones := make([]byte, 4*faces.Out)
	for i := range faces.Out {
		putFloat(ones[4*i:], 1)
	}
	status, got, err := infer(url, `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,50],"parameters":{"binary_data_size":200}},
		{"name":"seed:y","datatype":"FP32","shape":[1,7],"parameters":{"binary_data_size":28}}],
		"outputs":[{"name":"y"},{"name":"gradient:x"}],"parameters":{"binary_data_output":true}}`, values(1), ones)
	if err != nil || status != 200 || !bytes.Equal(got, bytes.Join(want, nil)) {
		t.Fatalf("%d %v: %x, want %x", status, err, got, want)
	}
	sum := func(frame []byte) (total float64) {
		text, _ := json.Marshal(map[string]any{"inputs": []any{map[string]any{"name": "x", "datatype": "FP32", "shape": []int{1, 50}, "data": numbers(frame)}}, "outputs": []any{map[string]any{"name": "y"}}})
		answer, err := http.Post(url+"/infer", "", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var out struct{ Outputs []struct{ Data []float64 } }
		if err := json.NewDecoder(answer.Body).Decode(&out); err != nil || len(out.Outputs) != 1 || len(out.Outputs[0].Data) != faces.Out {
			t.Fatalf("%v: %+v", err, out)
		}
		for _, v := range out.Outputs[0].Data {
			total += v
		}
		return total
	}
	gradient := numbers(got[28:])
	for i := 0; i < faces.In; i += 7 {
		const step = 1.0 / 64
		up, down := values(1), values(1)
		putFloat(up[4*i:], float32(numbers(up)[i]+step))
		putFloat(down[4*i:], float32(numbers(down)[i]-step))
		if slope := (sum(up) - sum(down)) / (2 * step); math.Abs(slope-gradient[i]) > 2e-3 {
			t.Errorf("the gradient of value %d is %v, differences give %v", i, gradient[i], slope)
		}
	}
}

func numbers(raw []byte) (out []float64) {
	for ; len(raw) >= 4; raw = raw[4:] {
		out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
	}
	return out
}

// TestLateFramesOverHTTP holds that frames which an executor that stands still leaves waiting are answered with 504 when
// their timeouts pass, that those without a timeout are answered when it goes on, and that nothing is left of any.
func TestLateFramesOverHTTP(t *testing.T) {
	p := newTensors(t, "ipc://"+filepath.Join(t.TempDir(), "s"))
	url := serveTensors(t, p)
	goOn := make(chan struct{})
	p.mu.Lock()
	p.hold = func() { <-goOn }
	p.mu.Unlock()
	var group sync.WaitGroup
	for i := range 8 {
		late := i%2 == 0
		group.Go(func() {
			timeout := ""
			if late {
				timeout = `,"timeout":100000`
			}
			begun := time.Now()
			status, data, err := infer(url, fmt.Sprintf(frameHead, timeout), values(uint64(i)))
			took := time.Since(begun)
			switch {
			case err != nil:
				t.Error(err)
			case late && (status != http.StatusGatewayTimeout || took > 2*time.Second):
				t.Errorf("a late frame: %d after %v: %s", status, took, data)
			case !late && (status != http.StatusOK || len(data) != 4*faces.Out):
				t.Errorf("a patient frame: %d: %s", status, data)
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	close(goOn)
	group.Wait()
	if open, _ := p.client.Jobs(); open != 0 {
		t.Errorf("%d jobs are open", open)
	}
	p.gone()
}
