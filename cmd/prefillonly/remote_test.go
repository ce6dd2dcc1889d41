package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// run is what a command of this program prints.
func run(args ...string) (string, error) {
	root, out := newRootCommand(), &bytes.Buffer{}
	root.SetOut(out)
	root.SetErr(out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

// TestCommandsAskAServer: sound is written down by a running server as by networks in the command's own process, in JSON and in lines of batch
// files as in a form; and what is wrong is said.
func TestCommandsAskAServer(t *testing.T) {
	dir := levelsNetwork(t)
	list := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(list, []byte(fmt.Sprintf("models:\n- {name: levels, path: %q, pipeline: speech}\n", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, []string{"PREFILLONLY_API_KEY=sesame"}, "--config", list, "--batch-dir", filepath.Join(t.TempDir(), "batches"))
	file, key := filepath.Join(t.TempDir(), "sound.wav"), filepath.Join(t.TempDir(), "key")
	sound := steppedSound(0, 32, 32, 0, 32, 96, 96, 32, 0)
	for name, data := range map[string][]byte{file: sound, key: []byte("sesame\n")} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, format := range []string{"text", "json", "verbose_json", "srt", "vtt"} {
		own, err := run("transcribe", file, file, "--model", dir, "--format", format)
		if err != nil {
			t.Fatal(err)
		}
		asked, err := run("transcribe", file, file, "--server", p.base, "--api-key-file", key, "--format", format)
		if err != nil || asked != own || !strings.Contains(own, "aaba") {
			t.Errorf("%s: %v, a server says %q, this process %q", format, err, asked, own)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--server", p.base}, "asks for an API key"},
		{[]string{"--server", p.base, "--api-key-file", key, "--model", "nosuch"}, "does not exist"},
		{[]string{"--server", p.base, "--threads", "1"}, "leave them out with --server"},
		{[]string{"--server", "nowhere"}, "invalid address"},
		{[]string{"--api-key-file", key, "--model", dir}, "say with --server"},
		{nil, "or with --server"},
	} {
		if _, err := run(append([]string{"transcribe", file}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
	body := fmt.Sprintf(`{"model":"levels","file":"data:audio/wav;base64,%s","response_format":"verbose_json","timestamp_granularities":["word"]}`, base64.StdEncoding.EncodeToString(sound))
	if status, v := p.keyed("sesame", "POST", "/v1/audio/transcriptions", "application/json", strings.NewReader(body)); status != 200 || v["text"] != "aaba" || len(v["words"].([]any)) != 4 {
		t.Errorf("JSON: %d %v", status, v)
	}
	p.expectBatch("sesame", "/v1/audio/transcriptions", body, `"text":"aaba"`)
}

// expectBatch has a batch file of one line answered with what is wanted.
func (p *program) expectBatch(key, path, body, want string) {
	p.Helper()
	_, f := p.upload(key, []byte(fmt.Sprintf(`{"custom_id":"a","method":"POST","url":%q,"body":%s}`+"\n", path, body)))
	status, b := p.keyed(key, "POST", "/v1/batches", "application/json", strings.NewReader(fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, f["id"], path)))
	if status != 200 {
		p.Fatalf("create: %d %v", status, b)
	}
	id := b["id"].(string)
	for limit := time.Now().Add(time.Minute); b == nil || b["output_file_id"] == nil || b["status"] != "completed"; b = p.batchOf(key, id) {
		if time.Now().After(limit) {
			p.Fatalf("a minute later: %v", b)
		}
		time.Sleep(10 * time.Millisecond)
	}
	r, err := http.NewRequest(http.MethodGet, p.base+"/v1/files/"+b["output_file_id"].(string)+"/content", nil)
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	if text := readAll(p, response); !strings.Contains(text, want) {
		p.Errorf("the answers are %s, want %s", text, want)
	}
}

// TestOCRAsksAServer: a picture goes as it is, and what a server answers is printed as of networks here, but cannot steer a terminal.
func TestOCRAsksAServer(t *testing.T) {
	var sent struct{ Model, Image string }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || r.URL.Path != "/v1/ocr" || r.Header.Get("Authorization") != "Bearer sesame" {
			t.Errorf("%s %v, %v", r.URL, r.Header, err)
		}
		_, _ = w.Write([]byte(`{"model":"reader","text":"x","lines":[{"text":"one","score":0.9,"box":[[1,2],[3,2],[3,4],[1,4]]},{"text":"t\u001b[2Jwo","score":0.8,"box":[[1,2],[3,2],[3,4],[1,4]]}]}`))
	}))
	defer server.Close()
	t.Setenv("PREFILLONLY_API_KEY", "sesame")
	file := filepath.Join(t.TempDir(), "page.png")
	if err := os.WriteFile(file, []byte("a picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := run("ocr", file, "--server", server.URL, "--model", "reader")
	if err != nil || text != "one\nt?[2Jwo\n" || sent.Model != "reader" || sent.Image != "data:;base64,"+base64.StdEncoding.EncodeToString([]byte("a picture")) {
		t.Errorf("%v, %q; sent %+v", err, text, sent)
	}
	text, err = run("ocr", file, "--server", server.URL, "--json")
	if err != nil || !strings.Contains(text, `"lines":[{"text":"one","score":0.9,"box":[[1,2],[3,2],[3,4],[1,4]]}`) {
		t.Errorf("%v, %s", err, text)
	}
}
