package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// eyeFile writes that network of pictures.
func eyeFile(t *testing.T, size int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eye.onnx")
	if err := os.WriteFile(file, onnxtest.File(17, onnxtest.Eye(size)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serveEye serves that network, and streams of the drawn clip.
func serveEye(t *testing.T) *program {
	t.Helper()
	return serveEyes(t, eyeEntry("eye", eyeFile(t, 1))).program
}

// eyeEntry is a network in a list of models.
func eyeEntry(name, file string) string {
	return fmt.Sprintf("- {name: %s, path: %s, image: {scale: [255]}, decoder: ssd}\n", name, file)
}

// serveEyes serves networks, and streams of the drawn clips.
func serveEyes(t *testing.T, models string, args ...string) filed {
	t.Helper()
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	clips, err := filepath.Abs("../../videoext/media/ffmpeg/testdata")
	if err != nil {
		t.Fatal(err)
	}
	return serveFile(t, "models:\n"+models, append([]string{"--video-files", clips, "--video-state", t.TempDir()}, args...)...)
}

// declare asks for a stream until the process that keeps them answers.
func (p *program) declare(body string) (status int, text string) {
	p.Helper()
	p.until("declared", func() bool {
		response, err := http.Post(p.base+"/v1/video/streams", "application/json", strings.NewReader(body))
		if err != nil {
			p.Fatal(err)
		}
		status, text = response.StatusCode, readAll(p, response)
		return status != http.StatusServiceUnavailable
	})
	return status, text
}

// frameResult is what tests look at of a result.
type frameResult struct {
	Stream, Dropped string
	Number          uint64
	Segment, Frame  int
	Of              int
	Time            float64
	Final           bool
	Discontinuity   bool
	Boxes           []struct {
		Box   [4]float32
		Class int
		Score float64
	}
}

// watch reads a stream's results from the first on until there are enough.
func (p *program) watch(name string, enough int) []frameResult {
	p.Helper()
	return p.follow(name, func(all []frameResult) bool { return len(all) >= enough })
}

// follow reads a stream's results from the first on until all that is wanted is there; after a broken connection it goes on behind the last.
func (p *program) follow(name string, enough func(all []frameResult) bool) (all []frameResult) {
	p.Helper()
	ctx, stop := context.WithTimeout(p.Context(), 90*time.Second)
	defer stop()
	for last := uint64(0); ; time.Sleep(50 * time.Millisecond) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/v1/video/streams/%s/results?after=%d", p.base, name, last), nil)
		if err != nil {
			p.Fatal(err)
		}
		request.Header.Set("Accept", "application/x-ndjson")
		response, err := http.DefaultClient.Do(request)
		if err != nil || response.StatusCode != http.StatusOK {
			if ctx.Err() != nil {
				p.Fatalf("%d results of %s are not enough: %v", len(all), name, err)
			}
			continue
		}
		lines := bufio.NewScanner(response.Body)
		for !enough(all) && lines.Scan() {
			var r frameResult
			if lines.Text() == "" {
				continue
			}
			if json.Unmarshal(lines.Bytes(), &r) != nil {
				break // cut
			}
			if r.Number != last+1 {
				p.Errorf("result %d comes behind %d", r.Number, last)
			}
			last, all = r.Number, append(all, r)
		}
		response.Body.Close()
		if enough(all) {
			return all
		}
	}
}

// TestVideoRefusals: what cannot be is refused with the field and the figure.
func TestVideoRefusals(t *testing.T) {
	p := serveEye(t)
	if status, text := p.declare(`{"name":"eyes","model":"eye","source":"camera","method":"mpeg"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	for body, want := range map[string]string{
		`{"name":"eyes","source":"camera"}`:                             `409 stream_exists name`,
		`{"name":"a b","source":"camera"}`:                              `400 invalid_value name`,
		`{"name":"a","source":"../videoserve.go"}`:                      `400 invalid_value source`,
		`{"name":"a","source":"/etc/passwd"}`:                           `400 invalid_value source`,
		`{"name":"a","source":"make.sh"}`:                               `400 invalid_value source`,
		`{"name":"a","source":"http://example.com/a.mp4"}`:              `400 invalid_value source`,
		`{"name":"a","source":"camera","method":"magic"}`:               `400 invalid_value method`,
		`{"name":"a","source":"camera","rate":-1}`:                      `400 invalid_value rate`,
		`{"name":"a","source":"camera","rate":"x"}`:                     `400 invalid_value rate`,
		`{"name":"a","source":"camera","model":"llm"}`:                  `404 model_not_found model`,
		`{"name":"a","source":"camera","colour":"red"}`:                 `400 invalid_value `,
		`{"name":"a","source":"drawn.mp4","deadline_ms":1000000000000}`: `400 invalid_value deadline_ms`,
	} {
		status, text := p.declare(body)
		var answer struct{ Error struct{ Code, Param string } }
		if err := json.Unmarshal([]byte(text), &answer); err != nil || fmt.Sprint(status, " ", answer.Error.Code, " ", answer.Error.Param) != want {
			t.Errorf("%s: %d %s, want %s", body, status, text, want)
		}
	}
	for path, want := range map[string]int{"eyes": 200, "other": 404, "eyes/frame.jpg": 404, "eyes/results?after=x": 400} {
		response, err := http.Get(p.base + "/v1/video/streams/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, response); response.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", path, response.StatusCode, text, want)
		}
	}
}
