package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// digitsDir has a network that hears digits, its alphabet and its rate.
const digitsDir = "../../engine/speech/testdata/digits"

// transcribe sends a file of sound in a form, whose other fields are in pairs.
func (p *program) transcribe(file []byte, pairs ...string) (status int, kind, answer string) {
	p.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(pairs); i += 2 {
		_ = form.WriteField(pairs[i], pairs[i+1])
	}
	part, err := form.CreateFormFile("file", "sound")
	if err != nil {
		p.Fatal(err)
	}
	_, _ = part.Write(file)
	_ = form.Close()
	response, err := http.Post(p.base+"/v1/audio/transcriptions", form.FormDataContentType(), &body)
	if err != nil {
		p.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), readAll(p, response)
}

// steppedSound is a WAV of 8-bit samples of 1 kHz in which each tenth of a second has one level, of 0 to 127.
func steppedSound(of ...byte) []byte {
	data := bytes.Repeat([]byte{128}, 100*len(of))
	for i := range data {
		data[i] += of[i/100]
	}
	b := []byte("RIFF....WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\xe8\x03\x00\x00\xe8\x03\x00\x00\x01\x00\x08\x00data")
	return append(append(b, byte(len(data)), byte(len(data)>>8), byte(len(data)>>16), 0), data...)
}

// levelsNetwork writes a folder with a network of 1 kHz that hears, in each tenth of a second, a letter of the sound's mean: "a" of about
// a quarter, "b" of about three quarters and a blank of none.
func levelsNetwork(t *testing.T) (dir string) {
	t.Helper()
	mean := make([]float64, 100)
	for i := range mean {
		mean[i] = 0.01
	}
	file := onnxtest.File(17, onnxtest.Graph{
		Inputs:    []onnxtest.Value{{Name: "sound", Type: onnxtest.Float32, Dims: []any{1, 1, "samples"}}},
		Outputs:   []onnxtest.Value{{Name: "logits", Type: onnxtest.Float32, Dims: []any{1, "steps", 3}}},
		Constants: []onnxtest.Tensor{onnxtest.Floats("mean", []int{1, 1, 100}, mean...), onnxtest.Floats("slope", []int{3, 1, 1}, 0, 1, 2), onnxtest.Floats("from", []int{3}, 0, -0.125, -0.625)},
		Nodes: []onnxtest.Node{
			{Op: "Conv", In: []string{"sound", "mean"}, Out: []string{"level"}, Attrs: map[string]any{"strides": []int{100}}},
			{Op: "Conv", In: []string{"level", "slope", "from"}, Out: []string{"lines"}},
			{Op: "Transpose", In: []string{"lines"}, Out: []string{"logits"}, Attrs: map[string]any{"perm": []int{0, 2, 1}}},
		},
	})
	dir = t.TempDir()
	for name, data := range map[string][]byte{"levels.onnx": file, "vocab.json": []byte(`{"b":2,"<pad>":0,"a":1}`), "preprocessor_config.json": []byte(`{"sampling_rate":1000}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// serveSound serves the digits and the levels.
func serveSound(t *testing.T) *program {
	t.Helper()
	digits, err := filepath.Abs(digitsDir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "models.yaml")
	list := fmt.Sprintf("models:\n- {path: %q, pipeline: speech}\n- {name: levels, path: %q, pipeline: speech}\n", digits, levelsNetwork(t))
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, nil, "--config", file)
}

// TestTranscriptions: sound sent as OpenAI's clients do is written down in each form, with its times, and what cannot be is refused with what is wrong.
func TestTranscriptions(t *testing.T) {
	p := serveSound(t)
	sound := steppedSound(0, 32, 32, 0, 32, 96, 96, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 96, 0)
	for _, c := range []struct{ format, kind, want string }{
		{"json", "application/json", `{"text":"aabab","usage":{"type":"duration","seconds":2}}`},
		{"text", "text/plain; charset=utf-8", "aabab\n"},
		{"srt", "application/x-subrip; charset=utf-8", "1\n00:00:00,100 --> 00:00:00,800\naaba\n\n2\n00:00:01,700 --> 00:00:01,800\nb\n\n"},
		{"vtt", "text/vtt; charset=utf-8", "WEBVTT\n\n00:00:00.100 --> 00:00:00.800\naaba\n\n00:00:01.700 --> 00:00:01.800\nb\n\n"},
	} {
		if status, kind, answer := p.transcribe(sound, "model", "levels", "response_format", c.format); status != 200 || kind != c.kind || answer != c.want {
			t.Errorf("%s: %d %s %s", c.format, status, kind, answer)
		}
	}
	var v struct {
		Duration float64
		Language string
		Words    []struct{ Start, End float64 }
	}
	if _, _, answer := p.transcribe(sound, "model", "levels", "response_format", "verbose_json", "language", "en", "timestamp_granularities[]", "word"); json.Unmarshal([]byte(answer), &v) != nil ||
		v.Duration != 1.9 || v.Language != "en" || len(v.Words) != 5 || v.Words[1].Start != 0.4 || v.Words[1].End != 0.5 {
		t.Errorf("%s", answer)
	}
	var long []byte
	for i := range 600 { // a minute, in three windows
		long = append(long, []byte{0, 32, 96}[i*i%7%3])
	}
	want := ""
	for i, level := range long {
		if i == 0 || long[i-1] != level {
			want += map[byte]string{32: "a", 96: "b"}[level]
		}
	}
	if _, _, answer := p.transcribe(steppedSound(long...), "model", "levels", "response_format", "text"); answer != want+"\n" {
		t.Errorf("a minute: %s, want %s", answer, want)
	}
	for _, c := range []struct {
		file   []byte
		fields []string
		status int
		want   string
	}{
		{sound, []string{"model", "levels", "stream", "true"}, 400, "stream is not supported"},
		{sound, []string{"model", "nosuch"}, 404, "does not exist"},
		{sound, nil, 400, "names no model"},
		{[]byte("not a sound"), []string{"model", "levels"}, 400, "file of 11 bytes"},
		{sound[:44], []string{"model", "levels"}, 400, "the sound has no samples"},
		{nil, []string{"model", "levels"}, 400, "the file is empty"},
	} {
		if status, _, answer := p.transcribe(c.file, c.fields...); status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%q: %d %s, want %d %q", c.fields, status, answer, c.status, c.want)
		}
	}
	if status, answer := p.post("/v1/completions", "key", `{"model":"levels","prompt":"x"}`); status != 400 || !strings.Contains(answer, "ask it at /v1/audio/transcriptions") {
		t.Errorf("asked for text: %d %s", status, answer)
	}
	response, err := http.Get(p.base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^vllm:request_success_total\{.*finished_reason="stop",.*model_name="levels"\} 6$`).MatchString(readAll(t, response)) {
		t.Error("the metrics do not count the six answers")
	}
}

// held are held-out recordings of the Free Spoken Digit Dataset; the test is skipped where there are none.
func held(t *testing.T) []string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(os.Getenv("PREFILLONLY_DATA"), "audio", "fsdd", "*_0.wav"))
	if os.Getenv("PREFILLONLY_DATA") == "" || len(files) < 60 {
		t.Skip("PREFILLONLY_DATA has no audio/fsdd")
	}
	return files
}

// TestSpokenDigits: of recordings that the network was not trained on at least 98 % are heard right, through the endpoint and by the command.
func TestSpokenDigits(t *testing.T) {
	files := held(t)
	p := serveSound(t)
	right := 0
	for _, file := range files {
		sound, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		status, _, answer := p.transcribe(sound, "model", "digits", "response_format", "text")
		if status != 200 {
			t.Fatalf("%s: %d %s", file, status, answer)
		}
		if answer == filepath.Base(file)[:1]+"\n" {
			right++
		}
	}
	if least := int(math.Ceil(0.98 * float64(len(files)))); right < least {
		t.Errorf("%d of %d digits are heard, want %d", right, len(files), least)
	}
	out, err := command(nil, slices.Concat([]string{"transcribe", "--model", digitsDir}, files)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for line := range strings.Lines(string(out)) {
		if name, digit, _ := strings.Cut(strings.TrimSpace(line), ": "); filepath.Base(name)[:1] == digit {
			same++
		}
	}
	if same != right {
		t.Errorf("the command hears %d digits, the server %d", same, right)
	}
}

// TestSpeechInFLAC: a FLAC of two channels and 24 bits is heard, if FFmpeg's libraries are there.
func TestSpeechInFLAC(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(os.Getenv("PREFILLONLY_DATA"), "audio", "speech", "jfk.flac"))
	if os.Getenv("PREFILLONLY_DATA") == "" || err != nil {
		t.Skip("PREFILLONLY_DATA has no audio/speech/jfk.flac")
	}
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	p := serveSound(t)
	status, _, answer := p.transcribe(file, "model", "digits", "response_format", "verbose_json")
	var v struct{ Duration float64 }
	if json.Unmarshal([]byte(answer), &v) != nil || status != 200 || v.Duration != 11 {
		t.Errorf("%d %s", status, answer)
	}
}

// TestSilenceIsCutBySilero: held-out digits with seconds of silence between them are heard as without the network that finds it, by times of the whole sound.
func TestSilenceIsCutBySilero(t *testing.T) {
	files := held(t)
	silero := filepath.Join(os.Getenv("PREFILLONLY_DATA"), "models", "silero_vad_16k_op15.onnx")
	if _, err := os.Stat(silero); err != nil {
		t.Skip("PREFILLONLY_DATA has no models/silero_vad_16k_op15.onnx")
	}
	var data []byte
	want := ""
	for i := range 20 {
		file := files[i*7%len(files)]
		digit, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data = append(append(data, digit[44:]...), make([]byte, 2*8000*6)...)
		want += filepath.Base(file)[:1]
	}
	head := []byte("RIFF....WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data")
	sound := filepath.Join(t.TempDir(), "digits.wav")
	if err := os.WriteFile(sound, append(append(head, byte(len(data)), byte(len(data)>>8), byte(len(data)>>16), 0), data...), 0o600); err != nil {
		t.Fatal(err)
	}
	whole, err := run("transcribe", sound, "--model", digitsDir)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := run("transcribe", sound, "--model", digitsDir, "--silence", silero)
	if err != nil || changes([]rune(strings.TrimSpace(whole)), []rune(want)) > 1 || cut != whole {
		t.Errorf("%v; cut %q, whole %q, spoken %s", err, cut, whole, want)
	}
}
