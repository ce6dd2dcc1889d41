package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// keyed asks a server with a key and decodes the answer.
func (p *program) keyed(key, method, path, kind string, body io.Reader) (int, map[string]any) {
	p.Helper()
	r, err := http.NewRequest(method, p.base+path, body)
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", kind)
	client := &http.Client{Timeout: 60 * time.Second}
	defer client.CloseIdleConnections()
	response, err := client.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	text := readAll(p, response)
	var value map[string]any
	if json.Unmarshal([]byte(text), &value) != nil {
		value = map[string]any{"text": text}
	}
	return response.StatusCode, value
}

// upload uploads a file, again while the process that keeps it is being started again.
func (p *program) upload(key string, content []byte) (int, map[string]any) {
	p.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		_ = form.WriteField("purpose", "batch")
		part, _ := form.CreateFormFile("file", "in.jsonl")
		_, _ = part.Write(content)
		_ = form.Close()
		status, v := p.keyed(key, "POST", "/v1/files", form.FormDataContentType(), &body)
		if status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return status, v
		}
	}
}

// batchOf is a batch as the server shows it; nil while the process that keeps it is being started again.
func (p *program) batchOf(key, id string) map[string]any {
	p.Helper()
	status, b := p.keyed(key, "GET", "/v1/batches/"+id, "", nil)
	if status == http.StatusServiceUnavailable {
		return nil
	}
	if status != 200 {
		p.Fatalf("the batch: %d %v", status, b)
	}
	return b
}

// TestBatchesKilled: the process that keeps batches is killed twice in the middle of one: every line is answered once, and
// other keys see none of it.
func TestBatchesKilled(t *testing.T) {
	const n = 600
	p := serve(t, []string{"PREFILLONLY_API_KEY=one,two"}, "--device", "null", "--batch-dir", filepath.Join(t.TempDir(), "batches"), "--batch-space-per-key", "1MiB")
	content, err := os.ReadFile(writeBatch(t, n))
	if err != nil {
		t.Fatal(err)
	}
	status, f := p.upload("one", content)
	if status != 200 {
		t.Fatalf("upload: %d %v", status, f)
	}
	status, b := p.keyed("one", "POST", "/v1/batches", "application/json", strings.NewReader(fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/completions","completion_window":"24h"}`, f["id"])))
	if status != 200 {
		t.Fatalf("create: %d %v", status, b)
	}
	id := b["id"].(string)
	ended := func() map[string]any {
		b := p.batchOf("one", id)
		if b == nil || b["status"] != "completed" {
			return nil
		}
		return b
	}
	answered := func() float64 {
		if b := p.batchOf("one", id); b != nil {
			return b["request_counts"].(map[string]any)["completed"].(float64)
		}
		return 0
	}
	for range 2 {
		for deadline := time.Now().Add(60 * time.Second); answered() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no line is answered")
			}
		}
		p.strike("batches", syscall.SIGKILL)
	}
	var done map[string]any
	for deadline := time.Now().Add(60 * time.Second); done == nil; time.Sleep(10 * time.Millisecond) {
		if done = ended(); done == nil && time.Now().After(deadline) {
			t.Fatalf("the batch is %v", p.batchOf("one", id))
		}
	}
	output := "/v1/files/" + done["output_file_id"].(string)
	_, answers := p.keyed("one", "GET", output+"/content", "", nil)
	path := filepath.Join(t.TempDir(), "answers")
	if err := os.WriteFile(path, []byte(answers["text"].(string)), 0o600); err != nil {
		t.Fatal(err)
	}
	onceEach(t, path, n)
	for _, path := range []string{output, output + "/content", "/v1/batches/" + id} {
		if status, v := p.keyed("two", "GET", path, "", nil); status != 404 {
			t.Errorf("%s with another key: %d %v", path, status, v)
		}
	}
	if status, v := p.keyed("none", "GET", "/v1/files", "", nil); status != 401 {
		t.Errorf("without a key: %d %v", status, v)
	}
	if status, v := p.upload("two", make([]byte, 8<<20)); status != 413 || !strings.Contains(fmt.Sprint(v), "1048576") {
		t.Errorf("a file beyond the limit: %d %.300v", status, v)
	}
	if status, _ := p.upload("two", content); status != 200 {
		t.Errorf("a file after it: %d", status)
	}
}

// TestNoBatches: without a directory for them, the paths say how to have them.
func TestNoBatches(t *testing.T) {
	p := serve(t, nil, "--device", "null")
	if status, v := p.keyed("", "GET", "/v1/batches", "", nil); status != 404 || !strings.Contains(fmt.Sprint(v), "--batch-dir") {
		t.Errorf("%d %v", status, v)
	}
}
