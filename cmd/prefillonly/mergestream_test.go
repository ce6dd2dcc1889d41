package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// TestMergeLooksAtALiveStream: frames of a stream of a server with a key become a clip, by which the networks are judged: of the one thing in each of some dozen frames
// too few are held out. Without the key the server refuses.
func TestMergeLooksAtALiveStream(t *testing.T) {
	a := eyeFile(t, 1)
	file, err := os.ReadFile(a)
	if err == nil {
		err = onnx.Patch(file, map[string][]float32{"red": {0, 2, 0, 0, 0, 0}})
	}
	b, key, out := filepath.Join(t.TempDir(), "b.onnx"), filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "merged")
	for path, content := range map[string][]byte{b: file, key: []byte("sesame\n")} {
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	p := serveEyes(t, eyeEntry("eye", a)+"api-key: sesame\n")
	p.until("declared", func() bool {
		request, err := http.NewRequest(http.MethodPost, p.base+"/v1/video/streams", strings.NewReader(`{"name":"street","model":"eye","source":"drawn.mp4","loop":true}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer sesame")
		response, err := http.DefaultClient.Do(request)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusCreated
	})
	args := []string{"merge", "run", a, b, "--data", "stream:street", "--decoder", "ssd", "--server", p.base, "--collect", "3s", "--out", out}
	if text, err := run(args...); err == nil || !strings.Contains(err.Error(), "asks for an API key") {
		t.Errorf("without the key: %v\n%s", err, text)
	}
	text, err := run(append(args, "--api-key-file", key)...)
	if err == nil || !strings.Contains(err.Error(), "cannot be judged") {
		t.Errorf("with the key: %v\n%s", err, text)
	}
	clip, err := ffmpeg.Open(t.Context(), filepath.Join(out, "stream-street.avi"), ffmpeg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer clip.Close()
	if _, err := clip.Next(t.Context()); err != nil {
		t.Error(err)
	}
}
