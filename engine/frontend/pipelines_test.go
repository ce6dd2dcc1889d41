package frontend

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/recognition"
	"github.com/prefillonly/prefillonly/engine/apikey"
)

var readerNetworks = map[string]string{"detect": "reader", "direct": "reader/direct", "recognize": "reader/recognize"}

// readerOutput is what the networks of "reader" find: in each picture one line, which is upside down and says "Hi".
func (n *network) readerOutput(model string, work *engine.Tensors) *engine.TensorOutput {
	out := &engine.TensorOutput{}
	add := func(name string, t engine.DType, data []byte, shape ...int) {
		blob, _ := n.Put(data)
		out.Outputs = append(out.Outputs, engine.Ref{Name: name, Type: t, Shape: shape, Blob: blob})
	}
	floats := func(values ...float32) (data []byte) {
		for _, v := range values {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		return data
	}
	switch model {
	case "reader":
		height, width := work.Inputs[0].Shape[2], work.Inputs[0].Shape[3]
		likely := make([]float32, height*width)
		for y := height / 4; y < height/2; y++ {
			for x := width / 8; x < width/2; x++ {
				likely[y*width+x] = 1
			}
		}
		add("map", engine.FP32, floats(likely...), 1, 1, height, width)
	case "reader/direct":
		add("turned", engine.FP32, floats(0.01, 0.99), 1, 2)
	default:
		add("best", engine.Int64, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 1), 2), 1, 2)
		add("score", engine.FP32, floats(0.75, 1), 1, 2)
	}
	return out
}

// pictureOf is the base64 of a picture of a size.
func pictureOf(t testing.TB, width, height int) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(file.Bytes())
}

// TestTextOfAPicture: lines with scores and boxes in the picture's pixels, and in Mistral's form what they say. The jobs ask for no
// outputs but those that are read, and nothing stays held.
func TestTextOfAPicture(t *testing.T) {
	n := newNetwork(t, Config{})
	picture := pictureOf(t, 160, 80)
	var got recognition.Read
	post(t, n.Frontend, "/v1/ocr", `{"model":"reader","image":"data:image/png;base64,`+picture+`"}`, &got)
	if got.Text != "Hi" || got.Model != "reader" || len(got.Lines) != 1 || got.Lines[0].Score != 0.875 || got.ID == "" {
		t.Fatalf("got %+v", got)
	}
	for i, want := range [4][2]int{{16, 15}, {84, 15}, {84, 45}, {16, 45}} { // what was drawn, grown
		if at := got.Lines[0].Box[i]; math.Abs(float64(at[0]-want[0])) > 16 || math.Abs(float64(at[1]-want[1])) > 16 {
			t.Errorf("corner %d is at %v, about %v was drawn", i, at, want)
		}
	}
	submits, _ := n.s.Seen()
	var asked [][]string
	for _, s := range submits {
		asked = append(asked, append([]string{s.Model}, s.Work.(*engine.Tensors).Outputs...))
	}
	if want := [][]string{{"reader", "map"}, {"reader/direct", "turned"}, {"reader/recognize", "best", "score"}}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	var pages struct {
		Pages []struct{ Markdown string }
	}
	post(t, n.Frontend, "/v1/ocr", `{"model":"reader","document":{"type":"image_url","image_url":"data:image/png;base64,`+picture+`"}}`, &pages)
	if len(pages.Pages) != 1 || pages.Pages[0].Markdown != "Hi" {
		t.Errorf("got %+v", pages)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.held) != 0 || openJobs(n.Frontend) != 0 {
		t.Errorf("%d blobs and %d jobs are left", len(n.held), openJobs(n.Frontend))
	}
}

// hugePNG says that it has pixels which it does not have.
func hugePNG(width, height uint32) string {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("IHDR"), width), height)
	head = append(head, 8, 2, 0, 0, 0)
	file := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(head)))
}

// TestPicturesThatAreNone are refused, with the field and the figure, before any job is made.
func TestPicturesThatAreNone(t *testing.T) {
	n := newNetwork(t, Config{})
	good := pictureOf(t, 40, 40)
	for body, want := range map[string]string{
		`{"model":"reader"}`:                                                "image is missing",
		`{"model":"reader","image":""}`:                                     "image is empty",
		`{"model":"reader","image":"https://host/a.png"}`:                   "this server fetches nothing",
		`{"model":"reader","image":"file:///etc/passwd"}`:                   "this server fetches nothing",
		`{"model":"reader","image":"data:image/png,abc"}`:                   "want one of base64",
		`{"model":"reader","image":"!!"}`:                                   "is not base64",
		`{"model":"reader","image":"aGVsbG8="}`:                             "neither JPEG nor PNG",
		`{"model":"reader","image":7}`:                                      "image must be a string",
		`{"model":"reader","image":"` + hugePNG(100000, 100000) + `"}`:      "100000 x 100000 pixels, which is more than",
		`{"model":"reader","image":"` + hugePNG(6000, 5000) + `"}`:          "cannot be decoded",
		`{"model":"reader","image":"` + good + `","document":{}}`:           "both image and document",
		`{"model":"reader","document":{"type":"document_url"}}`:             "document.type is \\\"document_url\\\"",
		`{"model":"reader","document":{"type":"image_url","image_url":{}}}`: "document.image_url must be a text",
		`{"model":"demo","image":"` + good + `"}`:                           "has no `pipeline: ocr`; ask reader",
		`{"model":"reader/recognize","image":"` + good + `"}`:               "not exist",
	} {
		w := do(n.Frontend, http.MethodPost, "/v1/ocr", body, "Content-Type", "application/json")
		if w.Code != 400 && w.Code != 404 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.80s: %d %s, want %q", body, w.Code, w.Body, want)
		}
	}
	if submits, _ := n.s.Seen(); len(submits) != 0 {
		t.Errorf("%d jobs were made", len(submits))
	}
	if w := do(n.Frontend, http.MethodPost, "/v1/completions", `{"model":"reader","prompt":"x"}`, "Content-Type", "application/json"); w.Code != 400 || !strings.Contains(w.Body.String(), "ask it at /v1/ocr") {
		t.Errorf("asked for tokens: %d %s", w.Code, w.Body)
	}
}

// TestPicturesOfFiles: lines of batch files may ask for the text of pictures, and the only pipeline needs no name.
func TestPicturesOfFiles(t *testing.T) {
	n := newNetwork(t, Config{})
	asked, err := n.Ask(t.Context(), apikey.Owner{}, "/v1/ocr", []byte(`{"image":"`+pictureOf(t, 64, 64)+`"}`))
	if !Askable("/v1/ocr") || err != nil || asked.Status != 200 || !strings.Contains(string(asked.Body), `"text":"Hi"`) {
		t.Errorf("got %+v, %v", asked, err)
	}
}

// TestPictureOfALateRequest: the deadline is that of all networks together.
func TestPictureOfALateRequest(t *testing.T) {
	n := newNetwork(t, Config{})
	w := do(n.Frontend, http.MethodPost, "/v1/ocr", `{"model":"reader","image":"`+pictureOf(t, 2000, 2000)+`"}`, "Content-Type", "application/json", "X-Slo-Ttft-Ms", "1")
	var refused api.Error
	decodeBody(t, w.Body, &refused)
	if w.Code != http.StatusGatewayTimeout && w.Code != http.StatusTooManyRequests {
		t.Errorf("%d %+v", w.Code, refused)
	}
	if !slices.Contains(n.models.Names(), "reader") || openJobs(n.Frontend) != 0 {
		t.Errorf("%d jobs are left", openJobs(n.Frontend))
	}
}
