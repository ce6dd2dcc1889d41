package exchange

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func encoded(t *testing.T, coding string, data []byte) []byte {
	var out bytes.Buffer
	w := map[string]io.WriteCloser{"gzip": gzip.NewWriter(&out), "deflate": zlib.NewWriter(&out)}[coding]
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestThereAndBack(t *testing.T) {
	data := bytes.Repeat([]byte("what there is "), 10_000)
	for coding := range decoders {
		body := bytes.NewReader(encoded(t, coding, data))
		got, err := io.ReadAll(newDecoder(coding, iotest.HalfReader(body)))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", coding, len(got), err)
		}
		if body.Len() > 0 {
			t.Errorf("%s: %d bytes are not read", coding, body.Len())
		}
	}
	if newDecoder("br", nil) != nil {
		t.Error("br is known")
	}
}

// TestWrong holds that what is no coding is an *Error, and what ends the body is its own error.
func TestWrong(t *testing.T) {
	broken := errors.New("the line is cut")
	for coding := range decoders {
		whole := encoded(t, coding, []byte(strings.Repeat("abcdefgh", 1000)))
		flipped := bytes.Clone(whole)
		flipped[len(flipped)-6] ^= 1
		for name, body := range map[string][]byte{
			"nothing": nil, "text": []byte("{}"), "half": whole[:len(whole)/2], "all but a byte": whole[:len(whole)-1],
			"with a tail": append(bytes.Clone(whole), "tail"...), "flipped": flipped,
		} {
			_, err := io.ReadAll(newDecoder(coding, bytes.NewReader(body)))
			var wrong *codingError
			if !errors.As(err, &wrong) || !strings.HasSuffix(err.Error(), "as "+coding) {
				t.Errorf("%s, %s: %v", coding, name, err)
			}
		}
		for _, n := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
			if _, err := io.ReadAll(newDecoder(coding, io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken)))); !errors.Is(err, broken) {
				t.Errorf("%s, cut after %d bytes: %v", coding, n, err)
			}
		}
	}
}
