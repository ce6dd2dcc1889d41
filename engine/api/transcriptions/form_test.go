package transcriptions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/api"
)

// makeForm makes a body of fields, of which file is a file.
func makeForm(t testing.TB, pairs ...string) (contentType string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		begin := w.CreateFormField
		if pairs[i] == "file" {
			begin = func(name string) (io.Writer, error) { return w.CreateFormFile(name, "talk.wav") }
		}
		part, err := begin(pairs[i])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write([]byte(pairs[i+1]))
	}
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}

func TestDecodeForm(t *testing.T) {
	sound := strings.Repeat("\r\n--sound\x00\xff", 10000)
	kind, body := makeForm(t, "model", "m", "file", sound, "response_format", "verbose_json", "language", "en", "prompt", "names", "temperature", "0.2", "timestamp_granularities[]", "segment", "timestamp_granularities[]", "word", "stream", "false", "other", "x")
	r, err := DecodeForm(kind, body)
	if err != nil {
		t.Fatal(err)
	}
	if string(r.File) != sound || r.Model != "m" || r.Format != "verbose_json" || r.Language != "en" || !r.Words {
		t.Errorf("%d bytes, %+v", len(r.File), r)
	}
	if &r.File[0] != &body[0] {
		t.Error("the file is copied")
	}
}

// TestFormsThatAreRefused: what would change the answer, and what is no form.
func TestFormsThatAreRefused(t *testing.T) {
	many := []string{"file", "x"}
	for i := range 64 {
		many = append(many, fmt.Sprint("f", i), "")
	}
	for _, c := range []struct {
		pairs []string
		param string
		want  string
	}{
		{nil, "file", "missing field file"},
		{[]string{"model", "m"}, "file", "missing field file"},
		{[]string{"file", ""}, "file", "the file is empty"},
		{[]string{"file", "x", "file", "y"}, "file", "several files"},
		{[]string{"file", "x", "stream", "true"}, "stream", "stream is not supported"},
		{[]string{"file", "x", "include[]", "logprobs"}, "include", "include is not supported"},
		{[]string{"file", "x", "response_format", "diarized_json"}, "response_format", `invalid format "diarized_json": want json, text, verbose_json, srt, vtt`},
		{[]string{"file", "x", "temperature", "1.5"}, "temperature", "want a number from 0 to 1"},
		{[]string{"file", "x", "temperature", "NaN"}, "temperature", "want a number from 0 to 1"},
		{[]string{"file", "x", "timestamp_granularities[]", "letter"}, "timestamp_granularities", "want segment or word"},
		{[]string{"file", "x", "timestamp_granularities[]", "word"}, "timestamp_granularities", "needs response_format verbose_json"},
		{[]string{"file", "x", "prompt", strings.Repeat("x", maxField+1)}, "prompt", "has more than 16384 bytes"},
		{many, "", "more than 64 fields"},
	} {
		kind, body := makeForm(t, c.pairs...)
		if _, err := DecodeForm(kind, body); err == nil || err.Param != c.param || !strings.Contains(err.Message, c.want) {
			t.Errorf("%.100q: %+v, want %q", c.pairs, err, c.want)
		}
	}
	kind, body := makeForm(t, "file", "sound")
	for _, c := range [][2]string{{"application/json", string(body)}, {"", string(body)}, {"multipart/form-data", string(body)}, {kind, "{}"}, {kind, ""}, {kind, string(body[:len(body)-8])}} {
		if _, err := DecodeForm(c[0], []byte(c[1])); err == nil || err.Param != "file" || err.Type != api.TypeInvalidRequest {
			t.Errorf("%q: %+v", c, err)
		}
	}
}

func FuzzDecodeForm(f *testing.F) {
	_, body := makeForm(f, "model", "m", "file", "sound", "response_format", "srt")
	boundary, _, _ := bytes.Cut(body[2:], []byte("\r\n"))
	f.Add(bytes.ReplaceAll(body, boundary, []byte("b")))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=41=42\r\n--b--"))
	f.Add([]byte("--b\n\n\n--b\nContent-Disposition: form-data; name=file\n\nx\n--b--\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		before := slices.Clone(body)
		r, err := DecodeForm("multipart/form-data; boundary=b", body)
		if err == nil && (len(r.File) == 0 || len(r.File) >= len(body) || !bytes.Contains(before, r.File)) {
			t.Fatalf("%q of %q", r.File, before)
		}
	})
}

// TestAnswers: each format has its type, and subtitles their clocks.
func TestAnswers(t *testing.T) {
	made := func() *Answer {
		return &Answer{Text: "one two", Seconds: 3700.25, Segments: []Segment{{Start: 0.0004, End: 1.5, Text: "one"}, {Start: 3661.0019, End: 3700, Text: "two"}}, Words: []Word{{"one", 0, 1.5}}}
	}
	for _, c := range []struct{ format, kind, body string }{
		{"text", "text/plain; charset=utf-8", "one two\n"},
		{"json", "application/json", `{"text":"one two","usage":{"type":"duration","seconds":3701}}`},
		{"srt", "application/x-subrip; charset=utf-8", "1\n00:00:00,000 --> 00:00:01,500\none\n\n2\n01:01:01,002 --> 01:01:40,000\ntwo\n\n"},
		{"vtt", "text/vtt; charset=utf-8", "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\none\n\n01:01:01.002 --> 01:01:40.000\ntwo\n\n"},
	} {
		kind, body := (&Request{Format: c.format}).Body(made())
		if kind != c.kind || string(body) != c.body {
			t.Errorf("%s: %s\n%s", c.format, kind, body)
		}
	}
	var v struct {
		Language string
		Words    []Word
		Segments []struct{ ID int }
	}
	if _, body := (&Request{Format: "verbose_json", Language: "en", Words: true}).Body(made()); json.Unmarshal(body, &v) != nil || v.Language != "en" || len(v.Words) != 1 || v.Segments[1].ID != 1 {
		t.Errorf("%s", body)
	}
	if _, body := (&Request{Format: "verbose_json"}).Body(&Answer{}); !bytes.Contains(body, []byte(`"segments":[]`)) || bytes.Contains(body, []byte("words")) {
		t.Errorf("%s", body)
	}
}
