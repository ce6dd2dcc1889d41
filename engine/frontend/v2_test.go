package frontend

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
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// withBinary joins JSON and binary data, with the header that tells them apart.
func withBinary(head string, parts ...[]byte) (body string, header []string) {
	return head + string(bytes.Join(parts, nil)), []string{oip.HeaderLength, strconv.Itoa(len(head))}
}

func floats(raw []byte) []float32 {
	var out []float32
	for ; len(raw) >= 4; raw = raw[4:] {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return out
}

// stripes is a picture of 8 x 12 with a red half and one of (0, 128, 255).
func stripes() *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, 12, 8))
	for y := range 8 {
		for x := range 12 {
			m.Set(x, y, color.NRGBA{R: 200, A: 255})
			if x >= 6 {
				m.Set(x, y, color.NRGBA{G: 128, B: 255, A: 255})
			}
		}
	}
	return m
}

func pngFile(t testing.TB, m image.Image) []byte {
	var file bytes.Buffer
	if err := png.Encode(&file, m); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// element is a picture as an element of BYTES.
func element(file []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(file))), file...)
}

// checkStripes holds that an input is stripes as "org/eye" wants it.
func checkStripes(t *testing.T, raw []byte) {
	t.Helper()
	got := floats(raw)
	if len(got) != 3*4*6 {
		t.Fatalf("%d values", len(got))
	}
	for i, want := range []struct{ at, v float32 }{{0, 0}, {24, 0}, {48, 200}, {5, 255}, {29, 128}, {53, 0}} {
		if got[int(want.at)] != (want.v-1)/2 {
			t.Errorf("value %d is %v, want %v", i, got[int(want.at)], (want.v-1)/2)
		}
	}
}

func TestInferBinary(t *testing.T) {
	n := newNetwork(t, Config{})
	data := make([]byte, 4*72)
	for i := range data {
		data[i] = byte(i % 63)
	}
	body, header := withBinary(`{"id":"17","inputs":[{"name":"images","datatype":"FP32","shape":[1,3,4,6],"parameters":{"binary_data_size":288}}],"parameters":{"binary_data_output":true}}`, data)
	for _, path := range []string{"/v2/models/org/eye/infer", "/v2/models/org%2Feye/versions/1/infer", "/v2/models/eye/versions/1/infer"} {
		w := do(n.Frontend, http.MethodPost, path, body, header...)
		head, err := strconv.Atoi(w.Header().Get(oip.HeaderLength))
		if err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/octet-stream" || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
			t.Fatalf("%s: %d %v: %.300s", path, w.Code, w.Header(), w.Body)
		}
		var answer struct {
			Model   string `json:"model_name"`
			Version string `json:"model_version"`
			ID      string
			Outputs []struct {
				Name, Datatype string
				Shape          []int
				Parameters     map[string]int
			}
		}
		if err := json.Unmarshal(w.Body.Bytes()[:head], &answer); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(answer.Model, "eye") || answer.Version != "1" || answer.ID != "17" || len(answer.Outputs) != 1 || answer.Outputs[0].Parameters["binary_data_size"] != 288 ||
			answer.Outputs[0].Datatype != "FP32" || fmt.Sprint(answer.Outputs[0].Shape) != "[1 3 4 6]" || !bytes.Equal(w.Body.Bytes()[head:], data) {
			t.Errorf("%s: %s", path, w.Body.Bytes()[:head])
		}
	}
	if len(n.held) != 0 || openJobs(n.Frontend) != 0 {
		t.Errorf("%d blobs and %d jobs are left", len(n.held), openJobs(n.Frontend))
	}
}

func TestInferJSON(t *testing.T) {
	n := newNetwork(t, Config{})
	w := do(n.Frontend, http.MethodPost, "/v2/models/open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[2,3],"data":[[1,2,3],[4,5,255]]}],
		"parameters":{"priority":1,"stream":"door","timeout":2000000}}`, "X-User-Id", "me")
	if w.Code != 200 || w.Body.String() != `{"model_name":"open","model_version":"1","outputs":[{"name":"y","datatype":"UINT8","shape":[2,3],"data":[1,2,3,4,5,255]}]}` {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	job, work := n.work()
	if job.User != "me" || job.Stream != `"open"/door` || !job.Promised || job.Priority != -99 || job.Deadline > 2*time.Second || job.Deadline < time.Second || work.Frames != 2 {
		t.Errorf("%+v, %+v", job.Job, work)
	}
	w = do(n.Frontend, http.MethodPost, "/v2/models/pair/infer", `{"inputs":[{"name":"a","datatype":"INT64","shape":[2],"data":[-1,9007199254740993]},
		{"name":"b","datatype":"FP16","shape":[1],"data":[1]}],"outputs":[{"name":"y"}]}`)
	if w.Code != 400 || !strings.Contains(w.Body.String(), "FP16") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	body, header := withBinary(`{"inputs":[{"name":"a","datatype":"INT64","shape":[2],"data":[-1,9007199254740993]},
		{"name":"b","datatype":"FP16","shape":[1],"parameters":{"binary_data_size":2}}],"outputs":[{"name":"z","parameters":{"binary_data":true}},{"name":"y"}]}`, []byte{0, 0x3c})
	w = do(n.Frontend, http.MethodPost, "/v2/models/pair/infer", body, header...)
	if !strings.Contains(w.Body.String(), `"data":[-1,9007199254740993]`) || !strings.HasSuffix(w.Body.String(), "\x00\x3c") {
		t.Errorf("%d: %q", w.Code, w.Body)
	}
}

// TestPictures holds that pictures become inputs, however they come.
func TestPictures(t *testing.T) {
	n := newNetwork(t, Config{})
	file := pngFile(t, stripes())
	var frame []byte
	for y := range 8 {
		for x := range 12 {
			c := stripes().NRGBAAt(x, y)
			frame = append(frame, c.R, c.G, c.B)
		}
	}
	ask := func(batch int, body string, header ...string) {
		t.Helper()
		w := do(n.Frontend, http.MethodPost, "/v2/models/eye/infer", body, header...)
		head, _ := strconv.Atoi(w.Header().Get(oip.HeaderLength))
		if w.Code != 200 || head == 0 {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		_, work := n.work()
		if ref := work.Inputs[0]; ref.Type != engine.FP32 || ref.Shape[0] != batch || work.Frames != float64(batch) {
			t.Errorf("%+v", ref)
		}
		for i := range batch {
			checkStripes(t, w.Body.Bytes()[head+288*i:][:288])
		}
	}
	ask(1, string(file), oip.HeaderLength, "0")
	head := `{"inputs":[{"name":"images","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}`
	both := append(element(file), element(file)...)
	body, header := withBinary(fmt.Sprintf(head, len(both)), both)
	ask(2, body, header...)
	body, header = withBinary(`{"inputs":[{"name":"images","datatype":"UINT8","shape":[1,8,12,3],"parameters":{"binary_data_size":288}}],"parameters":{"binary_data_output":true}}`, frame)
	ask(1, body, header...)

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(body))
	z.Close()
	ask(1, packed.String(), append(header, "Content-Encoding", "gzip")...)
	// Raw data that is no picture is the input itself.
	w := do(n.Frontend, http.MethodPost, "/v2/models/eye/infer", string(make([]byte, 288)), oip.HeaderLength, "0")
	if w.Code != 200 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func TestGradients(t *testing.T) {
	n := newNetwork(t, Config{})
	seed := bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, 72)
	body, header := withBinary(`{"inputs":[{"name":"images","datatype":"FP32","shape":[1,3,4,6],"parameters":{"binary_data_size":288}},
		{"name":"seed:y","datatype":"FP32","shape":[1,3,4,6],"parameters":{"binary_data_size":288}}],
		"outputs":[{"name":"gradient:images","parameters":{"binary_data":true}},{"name":"y","parameters":{"binary_data":true}}]}`, make([]byte, 288), seed)
	w := do(n.Frontend, http.MethodPost, "/v2/models/eye/infer", body, header...)
	if w.Code != 200 || !bytes.HasSuffix(w.Body.Bytes(), append(make([]byte, 288), seed...)) || !strings.Contains(w.Body.String(), `"name":"gradient:images"`) {
		t.Errorf("%d: %q", w.Code, w.Body)
	}
	_, work := n.work()
	if work.Frames != 2.5 || fmt.Sprint(work.Outputs) != "[y]" || fmt.Sprint(work.Grad.Inputs) != "[images]" || len(work.Grad.Seeds) != 1 || work.Grad.Seeds[0].Name != "y" {
		t.Errorf("%+v, %+v", work, work.Grad)
	}
}

// TestV2Refused holds that what is wrong is a 4xx in the protocol's words, with the figure or name of it, and that no
// job is made of it.
func TestV2Refused(t *testing.T) {
	n := newNetwork(t, Config{MaxBody: 1 << 20})
	images := func(fields string) string { return `{"inputs":[{"name":"images",` + fields + `}]}` }
	huge := pngFile(t, image.NewGray(image.Rect(0, 0, 1, 1)))
	binary.BigEndian.PutUint32(huge[16:], 100_000)
	binary.BigEndian.PutUint32(huge[20:], 100_000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	var bomb, truncated bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 8<<20))
	z.Close()
	truncated.Write(bomb.Bytes()[:bomb.Len()/2])
	for _, c := range []struct {
		path, body string
		header     []string
		status     int
		want       string
	}{
		{"nobody/infer", `{}`, nil, 404, "nobody"},
		{"eye/versions/2/infer", `{}`, nil, 404, "no version `2`"},
		{"eye/explain", `{}`, nil, 404, "/v2/models/eye/explain is not served"},
		{"demo/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1],"data":[1]}]}`, nil, 400, "takes tokens"},
		{"eye/infer", ``, nil, 400, "byte 0 of 0"},
		{"eye/infer", `{"inputs":[{"name":"image","datatype":"FP32","shape":[1],"data":[1]}]}`, nil, 400, `no input \"image\"; its inputs are images`},
		{"eye/infer", images(`"datatype":"FP64","shape":[1],"data":[1]`), nil, 400, "FP64"},
		{"eye/infer", images(`"datatype":"FP32","shape":[1],"data":[1]`), nil, 400, "[-1 3 4 6]"},
		{"eye/infer", images(`"datatype":"FP32","shape":[1],"data":[NaN]`), nil, 400, "NaN"},
		{"eye/infer", images(`"datatype":"FP32","shape":[1000000000],"data":[1]`), nil, 400, "4000000000"},
		{"eye/infer", images(`"datatype":"BYTES","shape":[1],"data":["abc"]`), nil, 400, "neither JPEG nor PNG"},
		{"open/infer", `{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"data":["abc"]}]}`, nil, 400, "4 dimensions"},
		{"eye/infer", images(`"datatype":"UINT8","shape":[0,4,6,3],"data":[]`), nil, 400, "[0 4 6 3]"},
		{"pair/infer", `{"inputs":[{"name":"a","datatype":"INT64","shape":[2],"data":[1,2]}],"outputs":[{"name":"y"}]}`, nil, 400, "b is missing"},
		{"pair/infer", `{"inputs":[{"name":"a","datatype":"INT64","shape":[2],"data":[1,2]},{"name":"a","datatype":"INT64","shape":[2],"data":[1,2]}],"outputs":[{"name":"y"}]}`, nil, 400, "given twice"},
		{"open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]}],"outputs":[{"name":"w"}]}`, nil, 400, `no output \"w\"; its outputs are y`},
		{"open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]}],"outputs":[{"name":"y"},{"name":"y"}]}`, nil, 400, "twice"},
		{"open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]}],"outputs":[{"name":"gradient:x"}]}`, nil, 400, "seed:OUTPUT"},
		{"open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]},{"name":"seed:y","datatype":"UINT8","shape":[1,1],"data":[1]}]}`, nil, 400, "gradient:INPUT"},
		{"open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]}],"parameters":{"promised":true}}`, nil, 400, "timeout"},
		{"open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]}],"parameters":{"stream":"` + strings.Repeat("s", 300) + `"}}`, nil, 400, "300 bytes"},
		{"open/infer", `{}`, []string{oip.HeaderLength, "-1"}, 400, "-1"},
		{"open/infer", `{}`, []string{oip.HeaderLength, "3"}, 400, "is 3, the body has 2"},
		{"wide/infer", `ab`, []string{oip.HeaderLength, "0"}, 400, "more than one dimension"},
		{"eye/infer", `ab`, []string{oip.HeaderLength, "0"}, 400, "288"},
		{"pair/infer", `ab`, []string{oip.HeaderLength, "0"}, 400, "has 2"},
		{"eye/infer", string(huge), []string{oip.HeaderLength, "0"}, 400, "100000 x 100000 pixels"},
		{"open/infer", bomb.String(), []string{"Content-Encoding", "gzip"}, 413, "1048576"},
		{"open/infer", truncated.String()[:20], []string{"Content-Encoding", "gzip"}, 400, "gzip"},
		{"open/infer", `{}`, []string{"Content-Encoding", "deflate"}, 400, "deflate"},
		{"open/infer", `{}`, []string{"Content-Encoding", "br"}, 415, "br"},
		{"open/infer", strings.Repeat(" ", 2<<20), nil, 413, "2097152"},
		{"open/infer", `{}`, []string{"X-Slo-Ttft-Ms", "soon"}, 400, "soon"},
	} {
		w := do(n.Frontend, http.MethodPost, "/v2/models/"+c.path, c.body, c.header...)
		var refused map[string]string
		decodeBody(t, bytes.NewReader(w.Body.Bytes()), &refused)
		if w.Code != c.status || len(refused) != 1 || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %.100q: %d %.400s, want %d and %q", c.path, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
	submits, _ := n.s.Seen()
	if len(submits) != 0 || len(n.held) != 0 || openJobs(n.Frontend) != 0 {
		t.Errorf("%d jobs, %d blobs", len(submits), len(n.held))
	}
}

// TestLateFrames holds that a frame is answered with a 504 when its timeout has passed, at once, and its job withdrawn,
// whoever has not answered; and that engine errors come in the protocol's words.
func TestLateFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{})
		n.s.Answer = nil
		start := time.Now()
		w := do(n.Frontend, http.MethodPost, "/v2/models/open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]}],"parameters":{"timeout":30000}}`)
		if w.Code != http.StatusGatewayTimeout || time.Since(start) != 30*time.Millisecond || !strings.Contains(w.Body.String(), `{"error":"the deadline of 30ms has passed"}`) {
			t.Errorf("%d after %v: %s", w.Code, time.Since(start), w.Body)
		}
		if _, cancels := n.s.Seen(); len(cancels) != 1 || len(n.held) != 0 {
			t.Errorf("%d cancelled, %d blobs", len(cancels), len(n.held))
		}
		n.s.Answer = func(s *wire.Submit) []*wire.Result {
			return []*wire.Result{{Job: s.ID, Err: &engine.Error{Code: engine.CodeOverloaded, Message: "m", RetryAfter: 2 * time.Second}}}
		}
		w = do(n.Frontend, http.MethodPost, "/v2/models/open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]}]}`)
		if w.Code != 429 || w.Header().Get("Retry-After") != "2" || w.Body.String() != `{"error":"m"}` {
			t.Errorf("%d %v: %s", w.Code, w.Header(), w.Body)
		}
	})
}

func TestV2Metadata(t *testing.T) {
	n := newNetwork(t, Config{Version: "9"})
	get := func(path string, status int, want ...string) {
		t.Helper()
		w := do(n.Frontend, http.MethodGet, path, "")
		if w.Code != status {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
		for _, s := range want {
			if !strings.Contains(w.Body.String(), s) {
				t.Errorf("%s: %s lacks %s", path, w.Body, s)
			}
		}
	}
	get("/v2", 200, `"name":"prefillonly","version":"9"`, `"binary_tensor_data"`)
	get("/v2/health/live", 200, `{"live":true}`)
	get("/v2/health/ready", 200, `{"ready":true}`)
	get("/v2/models/org/eye", 200, `"name":"org/eye","versions":["1"],"platform":"onnx_onnxv1","inputs":[{"name":"images","datatype":"FP32","shape":[-1,3,4,6]}]`)
	get("/v2/models/org%2Feye/versions/1", 200, `"outputs":[{"name":"y"`)
	get("/v2/models/demo", 200, `"inputs":[],"outputs":[]`)
	get("/v2/models/eye/ready", 200, `{"name":"eye","ready":true}`)
	get("/v2/models/absent/versions/1/ready", 503, `"ready":false`)
	get("/v2/models/nobody/ready", 404, `{"error":"The model`)
	get("/v2/models/eye/config", 200, `"max_batch_size":8`, `"data_type":"TYPE_FP32","format":"FORMAT_NCHW","dims":[3,4,6]`)
	get("/v2/models/pair/config", 200, `"max_batch_size":0`, `"format":"FORMAT_NONE","dims":[2]`)
	get("/v2/nothing", 404, `{"error":"/v2/nothing is not served`)
	get("/v2/models/eye/infer", 404, "eye/infer")
	for range 3 {
		do(n.Frontend, http.MethodPost, "/v2/models/open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[2,1],"data":[1,2]}]}`)
	}
	get("/v2/models/open/stats", 200, `"name":"open","version":"1"`, `"inference_count":6,"execution_count":7`, `"queue":{"count":3,"ns":3000000}`, `"compute_infer":{"count":3,"ns":6000000}`, `"fail":{"count":0,"ns":0}`)
	get("/v2/models/stats", 200, `"org/eye"`, `"demo"`)
	get("/metrics", 200, `prefillonly:frames_total{engine="0",model_name="open"} 6`, `vllm:request_success_total{engine="0",finished_reason="stop",model_name="open"} 3`)
}

func TestRepository(t *testing.T) {
	keys, err := apikey.NewRing([]string{"user", "root @admin"}, "", apikey.IsolateKeys)
	if err != nil {
		t.Fatal(err)
	}
	n := newNetwork(t, Config{Keys: keys})
	var set []*wire.SetModel
	n.s.Set = func(m *wire.SetModel) *engine.Error {
		set = append(set, m)
		return nil
	}
	for _, c := range []struct {
		path, key, body string
		status          int
		want            string
	}{
		{"index", "", "", 401, `{"error":"this server asks`},
		{"index", "user", "", 200, `{"name":"org/eye","version":"1","state":"READY","reason":""}`},
		{"index", "user", "{}", 200, `"state":"UNAVAILABLE","reason":"it is loaded when a request needs it"`},
		{"index", "user", `{"ready":true}`, 200, `"state":"READY","reason":""}]`},
		{"index", "user", `{"ready":`, 400, `{"error"`},
		{"models/org/eye/load", "user", "{}", 403, `{"error":"loading and unloading`},
		{"models/org/eye/load", "root", "{}", 200, ""},
		{"models/org/eye/unload", "root", `{"parameters":{"unload_dependents":false}}`, 200, ""},
		{"models/org/eye/load", "root", `{"parameters":{"config":"{}"}}`, 400, "config"},
		{"models/org/eye/drop", "root", "", 404, "drop is not served"},
		{"models/nobody/load", "root", "", 404, "nobody"},
	} {
		w := do(n.Frontend, http.MethodPost, "/v2/repository/"+c.path, c.body, "Authorization", "Bearer "+c.key)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || c.want == "" && w.Body.Len() > 0 {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
	// What curl says of a body that it is told nothing of; only what changes nothing takes it.
	for path, status := range map[string]int{"index": 200, "models/org/eye/unload": 415} {
		w := do(n.Frontend, http.MethodPost, "/v2/repository/"+path, "{}", "Authorization", "Bearer root", "Content-Type", "application/x-www-form-urlencoded")
		if w.Code != status {
			t.Errorf("%s as a form: %d %s", path, w.Code, w.Body)
		}
	}
	if len(set) != 2 || set[0].Model != "org/eye" || set[0].Unload || !set[1].Unload {
		t.Errorf("%+v", set)
	}
	if w := do(n.Frontend, http.MethodGet, "/v2/health/ready", ""); w.Code != 200 {
		t.Errorf("health without a key: %d", w.Code)
	}
}

func TestV2Log(t *testing.T) {
	n := newNetwork(t, Config{AccessLog: true})
	core, logs := observer.New(zapcore.InfoLevel)
	n.log = zap.New(core)
	do(n.Frontend, http.MethodPost, "/v2/models/open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[2,1],"data":[1,2]}]}`, "X-Request-Id", "mine")
	line := logs.All()[0].ContextMap()
	for key, want := range map[string]any{"request_id": "mine", "status": int64(200), "model": "open", "frames": 2.0, "queue_ms": 1.0, "exec_ms": 2.0} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
}

// FuzzInfer holds that no body does harm, and that nothing is left of any.
func FuzzInfer(f *testing.F) {
	var file bytes.Buffer
	if err := jpeg.Encode(&file, stripes(), nil); err != nil {
		f.Fatal(err)
	}
	head := fmt.Sprintf(`{"inputs":[{"name":"images","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":%d}}]}`, file.Len()+4)
	f.Add([]byte(head+string(element(file.Bytes()))), strconv.Itoa(len(head)), "eye", "")
	f.Add(file.Bytes(), "0", "eye", "")
	f.Add([]byte(`{"inputs":[{"name":"x","datatype":"UINT8","shape":[2,1],"data":[1,2]}],"outputs":[{"name":"y"}]}`), "", "open", "")
	f.Add([]byte(`{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]},{"name":"seed:y","datatype":"UINT8","shape":[1,1],"data":[1]}],"outputs":[{"name":"gradient:x"}]}`), "", "open", "")
	n := newNetwork(f, Config{MaxBody: 1 << 20})
	f.Fuzz(func(t *testing.T, body []byte, header, model, coding string) {
		if h, w, err := images.Size(body); err == nil && images.Memory(h, w) > 16<<20 {
			return // would only be slow
		}
		r := httptest.NewRequest(http.MethodPost, "/v2/models/x/infer", bytes.NewReader(body))
		r.URL.Path = "/v2/models/" + model + "/infer"
		r.Header.Set(oip.HeaderLength, header)
		r.Header.Set("Content-Encoding", coding)
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, r)
		if w.Code >= 500 || len(n.held) != 0 || openJobs(n.Frontend) != 0 || n.shared.Held() != 0 {
			t.Fatalf("%d %s; %d blobs, %d jobs", w.Code, w.Body, len(n.held), openJobs(n.Frontend))
		}
	})
}
