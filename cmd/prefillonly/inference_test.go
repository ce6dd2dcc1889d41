package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/oip"
)

// street is a picture as a camera makes it.
func street(t *testing.T) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 960, 540))
	for y := range 540 {
		for x := range 960 {
			m.Set(x, y, color.RGBA{byte(x / 4), byte(y / 3), byte((x * y) >> 9), 255})
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, m, nil); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// serveNetworks serves the entries of a models file.
func serveNetworks(t *testing.T, entries string) *program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("models:\n"+entries), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, nil, "--config", file)
}

// postTensors sends a body of which header bytes are JSON, all of it where that is below 0.
func postTensors(t *testing.T, p *program, model string, body []byte, header int, more ...string) (status int, head, data []byte) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, p.base+"/v2/models/"+model+"/infer", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header >= 0 {
		r.Header.Set(oip.HeaderLength, strconv.Itoa(header))
	}
	for i := 0; i+1 < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0, nil, nil
	}
	defer answer.Body.Close()
	if data, err = io.ReadAll(answer.Body); err != nil {
		t.Error(err)
	}
	n, err := strconv.Atoi(answer.Header.Get(oip.HeaderLength))
	if err != nil {
		return answer.StatusCode, data, nil
	}
	return answer.StatusCode, data[:n], data[n:]
}

// TestDocumentedInference runs the requests of docs/http.md as they stand there, against YOLOX; the answer to a JPEG is
// that to the tensor which it becomes, to the bit, and to the same tensor as JSON.
func TestDocumentedInference(t *testing.T) {
	model := filepath.Join(golden.Data(t), "models", "yolox_nano_416.onnx")
	p := serveNetworks(t, "- path: "+model+"\n  image: {order: BGR, letterbox: 114}\n")
	to, err := images.NewTarget(engine.FP32, []int{1, 3, 416, 416}, images.Options{BGR: true, Letterbox: true, Grey: 114})
	if err != nil {
		t.Fatal(err)
	}
	picture, err := images.Decode(street(t))
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, to.Bytes(picture.Height, picture.Width))
	to.Write(frame, picture)
	asInput := oip.Response{Model: "m", Outputs: []oip.Output{{Name: "images", Type: engine.FP32, Shape: []int{1, 3, 416, 416}, Data: frame}}}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"street.jpg": street(t), "frame.json": bytes.Replace(asInput.AppendJSON(nil, nil), []byte(`"outputs"`), []byte(`"inputs"`), 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	documented := runDocumented(t, dir, p.base)

	head := `{"inputs":[{"name":"images","datatype":"FP32","shape":[1,3,416,416],"parameters":{"binary_data_size":2076672}}],"parameters":{"binary_data_output":true}}`
	status, _, want := postTensors(t, p, "yolox_nano_416", append([]byte(head), frame...), len(head))
	if status != http.StatusOK || len(want) != 4*3549*85 {
		t.Fatalf("%d, %d bytes", status, len(want))
	}
	answer, err := os.ReadFile(filepath.Join(dir, "answer"))
	if err != nil || !bytes.HasSuffix(answer, want) {
		t.Errorf("the answer to a JPEG has %d bytes, %v", len(answer), err)
	}
	asJSON := bytes.Replace([]byte(documented[1]), []byte(`"outputs"`), []byte(`"inputs"`), 1)
	if back, err := oip.Decode(asJSON, -1, 64<<20); err != nil || !bytes.Equal(back.Inputs[0].Data, want) {
		t.Errorf("the answer as JSON is another: %v", err)
	}
}

// runDocumented runs the requests of the section on networks with curl, and holds what they print to what is printed
// below them. It returns what they print.
func runDocumented(t *testing.T, dir, base string) (printed []string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	text, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Networks\n")
	section, _, more := strings.Cut(section, "\n## ")
	if !found || !more {
		t.Fatal("docs/http.md has no section on networks")
	}
	blocks := strings.Split(section, "\n\n")
	for i, block := range blocks {
		for line := range strings.Lines(block) {
			if !strings.HasPrefix(line, "    curl ") {
				continue
			}
			sh := exec.Command("sh", "-c", strings.ReplaceAll(line, "localhost:8000", strings.TrimPrefix(base, "http://")))
			sh.Dir = dir
			out, err := sh.CombinedOutput()
			if err != nil || bytes.HasPrefix(out, []byte(`{"error"`)) {
				t.Fatalf("%s: %v: %.300s", line, err, out)
			}
			printed = append(printed, string(out))
			if next := strings.TrimSpace(blocks[i+1]); strings.HasPrefix(next, "{") && plain(next) != plain(string(out)) {
				t.Errorf("%s prints %s, documented is %s", line, out, next)
			}
		}
	}
	if len(printed) != 3 {
		t.Fatalf("%d requests are documented", len(printed))
	}
	return printed
}

// plain is JSON in one form.
func plain(text string) string {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return err.Error()
	}
	out, _ := json.Marshal(value)
	return string(out)
}

// pixels writes a network that gives back pictures of 32 x 48 and how bright each of their channels is.
func pixels(t *testing.T) string {
	t.Helper()
	shape := []any{"n", 3, 32, 48}
	g := onnxtest.Graph{
		Inputs:  []onnxtest.Value{{Name: "images", Type: onnxtest.Float32, Dims: shape}},
		Outputs: []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: shape}},
		Nodes:   []onnxtest.Node{{Op: "Relu", In: []string{"images"}, Out: []string{"y"}}},
	}
	file := filepath.Join(t.TempDir(), "pixels.onnx")
	if err := os.WriteFile(file, onnxtest.File(17, g), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestBadInferenceMemory sends what costs a careless server most, again and again beside good frames: every one gets a
// 4xx with its figure, no good frame is lost, the frontend's memory stays where it was, and no process ends.
func TestBadInferenceMemory(t *testing.T) {
	p := serveNetworks(t, "- path: "+pixels(t)+"\n")
	frontend, executor := p.child("frontend"), p.child("executor")
	var bomb, flat bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 1024 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(&flat, image.NewGray(image.Rect(0, 0, 5000, 5000))); err != nil { // 600 kB that are 25 MB
		t.Fatal(err)
	}
	claim := append(bytes.Clone(flat.Bytes()[:33]), flat.Bytes()[33:60]...)
	binary.BigEndian.PutUint32(claim[16:], 100_000)
	binary.BigEndian.PutUint32(claim[20:], 100_000)
	binary.BigEndian.PutUint32(claim[29:], crc32.ChecksumIEEE(claim[12:29]))
	input := func(fields string) []byte {
		return []byte(`{"inputs":[{"name":"images",` + fields + `}]}`)
	}
	many := input(fmt.Sprintf(`"datatype":"BYTES","shape":[4000],"parameters":{"binary_data_size":%d}`, 4000*(4+len(claim))))
	header := len(many)
	for range 4000 {
		many = append(binary.LittleEndian.AppendUint32(many, uint32(len(claim))), claim...)
	}
	bad := []struct {
		body   []byte
		header int
		coding string
		status int
		want   string
	}{
		{make([]byte, 65<<20), -1, "", 413, "68157440"},
		{bomb.Bytes(), -1, "gzip", 413, "67108864"},
		{claim, 0, "", 400, "100000 x 100000"},
		{flat.Bytes()[:len(flat.Bytes())/2], 0, "", 400, "cannot be decoded"},
		{many, header, "", 400, "100000 x 100000"},
		{input(`"datatype":"FP32","shape":[1000000000],"data":[1]`), -1, "", 400, "4000000000"},
		{input(`"datatype":"FP32","shape":[1,3,32,48],"data":[` + strings.Repeat("[", 1<<20)), -1, "", 400, "the end"},
		{input(`"datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}`), 1 << 30, "", 400, "1073741824"},
		{input(`"datatype":"FP64","shape":[8000000],"data":[` + strings.Repeat("1,", 8e6-1) + `1]`), -1, "", 400, "FP64"},
	}
	good := func() {
		t.Helper()
		status, head, data := postTensors(t, p, "pixels", make([]byte, 4*3*32*48), 0)
		if status != http.StatusOK || len(data) != 4*3*32*48 {
			t.Errorf("a good frame: %d %.200s", status, head)
		}
	}
	good()
	before := memory(t, frontend, "VmRSS")
	for range 3 {
		var group sync.WaitGroup
		for _, b := range bad {
			group.Go(func() {
				coding := []string(nil)
				if b.coding != "" {
					coding = []string{"Content-Encoding", b.coding}
				}
				if status, head, _ := postTensors(t, p, "pixels", b.body, b.header, coding...); status != b.status || !strings.Contains(string(head), b.want) {
					t.Errorf("%d %.300s, want %d with %s", status, head, b.status, b.want)
				}
			})
			group.Go(good)
		}
		group.Wait()
	}
	most := memory(t, frontend, "VmHWM")
	t.Logf("the frontend had %d MiB before, and %d at the most", before, most)
	if most > before+700 {
		t.Errorf("the frontend grew from %d to %d MiB", before, most)
	}
	p.eventually("the memory is given back", func() bool { return memory(t, frontend, "VmRSS") < before+100 })
	if p.child("frontend") != frontend || p.child("executor") != executor {
		t.Error("a process has ended")
	}
}
