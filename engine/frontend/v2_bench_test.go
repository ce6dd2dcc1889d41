package frontend

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/prefillonly/prefillonly/engine/oip"
)

// BenchmarkInfer sends frames over a connection to a network that gives them back as it gets them, 416 x 416 in FP32: all
// that a frame costs beside the network. The client's share is in it.
func BenchmarkInfer(b *testing.B) {
	n := newNetwork(b, Config{})
	server := httptest.NewServer(n.Handler())
	defer server.Close()
	m := image.NewYCbCr(image.Rect(0, 0, 1920, 1080), image.YCbCrSubsampleRatio420)
	for y := range 1080 {
		for x := range 1920 {
			m.Y[m.YOffset(x, y)] = byte(128 + 60*math.Sin(float64(x)/9) + 60*math.Cos(float64(y)/7*float64(x)/500))
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, m, nil); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name, datatype, shape string
		data                  []byte
	}{
		{"tensor 416 FP32", "FP32", "[1,3,416,416]", make([]byte, 4*3*416*416)},
		{"frame 416 UINT8", "UINT8", "[1,416,416,3]", make([]byte, 3*416*416)},
		{"frame 1080p UINT8", "UINT8", "[1,1080,1920,3]", make([]byte, 3*1080*1920)},
		{fmt.Sprintf("JPEG 1080p of %d kB", file.Len()/1000), "BYTES", "[1]", element(file.Bytes())},
	} {
		head := fmt.Sprintf(`{"inputs":[{"name":"images","datatype":%q,"shape":%s,"parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}`, c.datatype, c.shape, len(c.data))
		body := append([]byte(head), c.data...)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				r, err := http.NewRequest(http.MethodPost, server.URL+"/v2/models/detector/infer", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set(oip.HeaderLength, strconv.Itoa(len(head)))
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				if size, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK || size < 4*3*416*416 {
					b.Fatalf("%d, %d bytes, %v", answer.StatusCode, size, err)
				}
				answer.Body.Close()
			}
		})
	}
}
