package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/batch"
	"github.com/prefillonly/prefillonly/engine/batch/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const endpoint = "/v1/completions"

// kept is a service under test.
type kept struct {
	*testing.T
	dir     string
	service *Service
	server  *httptest.Server
	asked   atomic.Int64
	gate    chan struct{} // lines wait for it; closed: they do not
	space   int64
}

func open(t *testing.T) *kept {
	k := &kept{T: t, dir: t.TempDir(), gate: make(chan struct{}), space: 1 << 20}
	k.start()
	t.Cleanup(k.close)
	return k
}

func (k *kept) start() {
	k.Helper()
	s, err := Open(Config{
		Dir: k.dir, Space: 2 * k.space, SpaceEach: k.space, MaxLines: 1000, Room: runner.NewRoom(4),
		Rules: batch.Rules{MaxLine: 1 << 16, Serves: func(path string) bool { return path == endpoint || path == "/v1/score" }},
		Ask:   func(owner string) (runner.Ask, bool) { return k.ask, owner != "stranger" },
	}, zap.NewNop())
	if err != nil {
		k.Fatal(err)
	}
	k.service, k.server = s, httptest.NewServer(s.Handler())
}

func (k *kept) close() {
	k.server.Close()
	if err := k.service.Close(); err != nil {
		k.Error(err)
	}
}

// ask refuses lines whose number is a multiple of 10.
func (k *kept) ask(ctx context.Context, l *batch.Line) (*batch.Reply, error) {
	select {
	case <-k.gate:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	k.asked.Add(1)
	if l.Number%10 == 0 {
		return &batch.Reply{Status: 400, Body: []byte(`{"error":{}}`)}, nil
	}
	return &batch.Reply{Status: 200, Body: []byte(`{"answer":true}`)}, nil
}

// call sends a request of an owner and decodes the answer.
func (k *kept) call(owner, method, path, kind string, body io.Reader) (int, map[string]any) {
	k.Helper()
	r, err := http.NewRequest(method, k.server.URL+path, body)
	if err != nil {
		k.Fatal(err)
	}
	r.Header.Set(OwnerHeader, owner)
	r.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		k.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		k.Fatal(err)
	}
	var value map[string]any
	if json.Unmarshal(text, &value) != nil {
		value = map[string]any{"text": string(text)}
	}
	return response.StatusCode, value
}

func (k *kept) get(owner, path string) map[string]any {
	k.Helper()
	status, value := k.call(owner, "GET", path, "", nil)
	if status != 200 {
		k.Fatalf("GET %s: %d %v", path, status, value)
	}
	return value
}

// upload sends a form of fields, the last of which is the file.
func (k *kept) upload(owner, content string, fields ...string) (int, map[string]any) {
	k.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = form.WriteField(fields[i], fields[i+1])
	}
	part, _ := form.CreateFormFile("file", "in.jsonl")
	_, _ = io.WriteString(part, content)
	_ = form.Close()
	return k.call(owner, "POST", "/v1/files", form.FormDataContentType(), &body)
}

func (k *kept) fine(owner, content string) string {
	k.Helper()
	status, f := k.upload(owner, content, "purpose", "batch")
	if status != 200 || f["status"] != "processed" || f["bytes"] != float64(len(content)) {
		k.Fatalf("upload: %d %v", status, f)
	}
	return f["id"].(string)
}

func (k *kept) create(owner, input, more string) (int, map[string]any) {
	k.Helper()
	return k.call(owner, "POST", "/v1/batches", "application/json", strings.NewReader(fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q%s}`, input, endpoint, more)))
}

func (k *kept) batch(owner, input string) string {
	k.Helper()
	status, b := k.create(owner, input, `,"completion_window":"24h","metadata":{"a":"b"}`)
	if status != 200 || b["object"] != "batch" || b["status"] != "validating" {
		k.Fatalf("create: %d %v", status, b)
	}
	return b["id"].(string)
}

// becomes waits until a batch has a status.
func (k *kept) becomes(owner, id, status string) map[string]any {
	k.Helper()
	return k.until(owner, id, status, func(now any) bool { return now == status })
}

// ended waits until a batch has ended.
func (k *kept) ended(owner, id string) {
	k.Helper()
	k.until(owner, id, "ended", func(now any) bool {
		return now == completed || now == failed || now == expired || now == cancelled
	})
}

func (k *kept) until(owner, id, what string, holds func(status any) bool) map[string]any {
	k.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {
		b := k.get(owner, "/v1/batches/"+id)
		if holds(b["status"]) {
			return b
		}
		if time.Now().After(deadline) {
			k.Fatalf("the batch is %v, and not %s", b, what)
		}
	}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":%q,\"body\":{}}\n", i+1, endpoint)
	}
	return b.String()
}

// once says that the answers of a batch are to all lines, each once.
func (k *kept) once(owner string, b map[string]any, n, refused int) {
	k.Helper()
	answers := k.get(owner, "/v1/files/"+b["output_file_id"].(string)+"/content")["text"].(string)
	refusals := ""
	if id, there := b["error_file_id"].(string); there {
		status, v := k.call(owner, "GET", "/v1/files/"+id+"/content", "", nil)
		if refusals, _ = v["text"].(string); status != 200 {
			k.Fatalf("%d %v", status, v)
		}
	}
	if strings.Count(answers, "\n") != n-refused || strings.Count(refusals, "\n") != refused {
		k.Errorf("%d answers and %d refusals, want %d and %d", strings.Count(answers, "\n"), strings.Count(refusals, "\n"), n-refused, refused)
	}
	for i := range n {
		if c := strings.Count(answers+refusals, fmt.Sprintf(`"custom_id":"%d"`, i+1)); c != 1 {
			k.Errorf("line %d has %d answers", i+1, c)
		}
	}
	if want := fmt.Sprintf("map[completed:%d failed:%d total:%d]", n-refused, refused, n); fmt.Sprint(b["request_counts"]) != want {
		k.Errorf("counts are %v, want %s", b["request_counts"], want)
	}
}

// TestBatch: from the upload to the answers, across an end of the process in the middle, with the input deleted meanwhile.
func TestBatch(t *testing.T) {
	k := open(t)
	input := k.fine("o1", lines(50))
	id := k.batch("o1", input)
	k.becomes("o1", id, "in_progress")
	for range 23 {
		k.gate <- struct{}{}
	}
	if status, v := k.call("o1", "DELETE", "/v1/files/"+input, "", nil); status != 200 || v["deleted"] != true {
		t.Fatalf("delete: %d %v", status, v)
	}
	k.close()
	k.start()
	if status, _ := k.call("o1", "GET", "/v1/files/"+input, "", nil); status != 404 {
		t.Errorf("a deleted file is still shown: %d", status)
	}
	close(k.gate)
	b := k.becomes("o1", id, "completed")
	k.once("o1", b, 50, 5)
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(k.dir, "files", input)); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a deleted file is still on the disk")
		}
	}
	if b["metadata"].(map[string]any)["a"] != "b" || b["errors"] != nil || b["expires_at"].(float64)-b["created_at"].(float64) != 24*3600 {
		t.Errorf("the batch is %v", b)
	}
	if status, _ := k.call("o1", "POST", "/v1/batches/"+id+"/cancel", "", nil); status != 400 {
		t.Errorf("a batch that is completed is cancelled: %d", status)
	}
}

// TestOwners: nobody sees, cancels or deletes what another has, and the batches of one run in the order in which they were made.
func TestOwners(t *testing.T) {
	k := open(t)
	input := k.fine("o1", lines(5))
	first, second := k.batch("o1", input), k.batch("o1", input)
	for _, path := range []string{"GET /v1/files/" + input, "GET /v1/files/" + input + "/content", "DELETE /v1/files/" + input, "GET /v1/batches/" + first, "POST /v1/batches/" + first + "/cancel"} {
		method, path, _ := strings.Cut(path, " ")
		if status, v := k.call("o2", method, path, "", nil); status != 404 {
			t.Errorf("%s %s of another: %d %v", method, path, status, v)
		}
	}
	if status, _ := k.create("o2", input, `,"completion_window":"24h"`); status != 404 {
		t.Errorf("a batch of another's file: %d", status)
	}
	for _, path := range []string{"/v1/files", "/v1/batches"} {
		if data := k.get("o2", path)["data"].([]any); len(data) != 0 {
			t.Errorf("%s of another lists %v", path, data)
		}
	}
	k.becomes("o1", first, "in_progress")
	if b := k.get("o1", "/v1/batches/"+second); b["status"] != "validating" {
		t.Errorf("the second batch is %v while the first runs", b["status"])
	}
	close(k.gate)
	k.once("o1", k.becomes("o1", second, "completed"), 5, 0)
	if b := k.get("o1", "/v1/batches/"+first); b["status"] != "completed" {
		t.Errorf("the first batch is %v after the second", b["status"])
	}
	stranger := k.batch("stranger", k.fine("stranger", lines(1)))
	if b := k.becomes("stranger", stranger, "failed"); !strings.Contains(fmt.Sprint(b["errors"]), "API key") {
		t.Errorf("without a key: %v", b)
	}
}

// TestCancel: a batch that runs, and one that waits behind it.
func TestCancel(t *testing.T) {
	k := open(t)
	input := k.fine("o1", lines(30))
	runs, waits := k.batch("o1", input), k.batch("o1", input)
	k.becomes("o1", runs, "in_progress")
	k.gate <- struct{}{}
	k.call("o1", "POST", "/v1/batches/"+waits+"/cancel", "", nil)
	if b := k.get("o1", "/v1/batches/"+waits); b["status"] != "cancelled" {
		t.Errorf("a batch that waits is %v after its cancel", b["status"])
	}
	for _, id := range []string{runs, runs} {
		if status, v := k.call("o1", "POST", "/v1/batches/"+id+"/cancel", "", nil); status != 200 && !strings.Contains(fmt.Sprint(v), "status 'cancelled'") {
			t.Errorf("cancel: %d %v", status, v)
		}
	}
	for _, id := range []string{runs, waits} {
		if b := k.becomes("o1", id, "cancelled"); b["cancelled_at"] == nil || b["cancelling_at"] == nil {
			t.Errorf("the batch is %v", b)
		}
	}
	if k.asked.Load() > 1 {
		t.Errorf("%d lines were answered", k.asked.Load())
	}
}

// TestWrongFiles: a batch of a file that is wrong fails with the lines.
func TestWrongFiles(t *testing.T) {
	k := open(t)
	close(k.gate)
	for content, code := range map[string]string{
		lines(1) + "{\n": "invalid_json_line", lines(1) + lines(1): "duplicate_custom_id", " ": "empty_file",
		strings.Replace(lines(1), endpoint, "/v1/score", 1): "mismatched_url",
	} {
		b := k.becomes("o1", k.batch("o1", k.fine("o1", content)), "failed")
		if text := fmt.Sprint(b["errors"]); !strings.Contains(text, code) || b["failed_at"] == nil || b["output_file_id"] != nil {
			t.Errorf("%q: %v, want %s", content, b, code)
		}
	}
	if k.asked.Load() > 0 {
		t.Error("lines of wrong files were sent")
	}
}

// TestExpires: lines that are not answered in the window say so.
func TestExpires(t *testing.T) {
	k := open(t)
	status, b := k.create("o1", k.fine("o1", lines(20)), `,"completion_window":"1s"`)
	if status != 200 {
		t.Fatalf("%d %v", status, b)
	}
	id := b["id"].(string)
	for deadline := time.Now().Add(60 * time.Second); time.Now().Unix() <= int64(b["expires_at"].(float64)); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the window does not end")
		}
	}
	close(k.gate) // the lines under way are answered, the others too late
	b = k.becomes("o1", id, "expired")
	content := k.get("o1", "/v1/files/"+b["error_file_id"].(string)+"/content")
	if !strings.Contains(fmt.Sprint(content), "batch_expired") || b["expired_at"] == nil {
		t.Errorf("%v %v", b, content)
	}
}

func TestMalformedBatchesAreRefused(t *testing.T) {
	k := open(t)
	input := k.fine("o1", lines(1))
	for more, field := range map[string]string{
		``: "completion_window", `,"completion_window":"soon"`: "completion_window", `,"completion_window":"9000h"`: "completion_window",
		`,"completion_window":"24h","metadata":{"k":"` + strings.Repeat("v", 513) + `"}`:        "metadata",
		`,"completion_window":"24h","output_expires_after":{"anchor":"created_at","seconds":1}`: "output_expires_after",
	} {
		if status, v := k.create("o1", input, more); status != 400 || !strings.Contains(fmt.Sprint(v), "param:"+field) {
			t.Errorf("%s: %d %v", more, status, v)
		}
	}
	for _, fields := range [][]string{{}, {"purpose", "fine-tune"}, {"purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "1"}, {"purpose", strings.Repeat("x", 5000)}} {
		if status, v := k.upload("o1", lines(1), fields...); status != 400 {
			t.Errorf("%.50q: %d %v", fields, status, v)
		}
	}
	if status, v := k.upload("o1", lines(1), "purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600"); status != 200 || v["expires_at"] == nil {
		t.Errorf("a file that expires: %d %v", status, v)
	}
	for _, path := range []string{"GET /v1/files/none", "GET /v1/batches/none", "PUT /v1/files", "GET /v1/files?limit=0", "GET /v1/batches?limit=101", "GET /v1/files?order=up"} {
		method, path, _ := strings.Cut(path, " ")
		if status, v := k.call("o1", method, path, "", nil); status != 404 && status != 400 || v["error"] == nil {
			t.Errorf("%s %s: %d %v", method, path, status, v)
		}
	}
	k.nothingLeft(2)
}

// nothingLeft says that n files, and nothing else, are on the disk.
func (k *kept) nothingLeft(n int) {
	k.Helper()
	for dir, want := range map[string]int{"uploads": 0, "files": n} {
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {
			entries, err := os.ReadDir(filepath.Join(k.dir, dir))
			if err != nil {
				k.Fatal(err)
			}
			if len(entries) == want {
				break
			}
			if time.Now().After(deadline) {
				k.Fatalf("%s holds %v, want %d", dir, entries, want)
			}
		}
	}
}

// TestHalfUpload: nothing is left of one, and its room is given back; nor of one that is too large.
func TestHalfUpload(t *testing.T) {
	k := open(t)
	in, out := io.Pipe()
	r, err := http.NewRequest("POST", k.server.URL+"/v1/files", in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	r.Header.Set(OwnerHeader, "o1")
	go func() { // ends with the pipe
		_, _ = io.WriteString(out, "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"+lines(100))
		out.CloseWithError(errors.New("cut"))
	}()
	if response, err := http.DefaultClient.Do(r); err == nil {
		response.Body.Close()
		t.Errorf("half an upload got %d", response.StatusCode)
	}
	k.nothingLeft(0)
	if status, v := k.upload("o1", strings.Repeat("x", int(k.space)+1), "purpose", "batch"); status != 413 || !strings.Contains(fmt.Sprint(v), fmt.Sprint(k.space)) {
		t.Errorf("too large a file: %d %v", status, v)
	}
	k.nothingLeft(0)
	k.fine("o1", strings.Repeat("x", int(k.space)-fileCost))
	if status, _ := k.upload("o1", "x", "purpose", "batch"); status != 413 {
		t.Errorf("one byte too many: %d", status)
	}
	k.fine("o2", strings.Repeat("x", int(k.space)-fileCost))
	if status, v := k.upload("o3", "x", "purpose", "batch"); status != 413 || !strings.Contains(fmt.Sprint(v), "of all") {
		t.Errorf("one byte too many of all: %d %v", status, v)
	}
}

// TestQuotaOfAnswers: a batch whose answers have no room fails with the figure, and keeps those that had.
func TestQuotaOfAnswers(t *testing.T) {
	k := open(t)
	close(k.gate)
	filler := k.fine("o1", strings.Repeat("x", int(k.space)-4<<10-2*fileCost-len(lines(100))))
	input := k.fine("o1", lines(100))
	b := k.becomes("o1", k.batch("o1", input), "failed")
	if !strings.Contains(fmt.Sprint(b["errors"]), fmt.Sprint(k.space)) || b["output_file_id"] == nil {
		t.Errorf("the batch is %v", b)
	}
	if status, _ := k.call("o1", "DELETE", "/v1/files/"+filler, "", nil); status != 200 {
		t.Fatal(status)
	}
	k.once("o1", k.becomes("o1", k.batch("o1", input), "completed"), 100, 10)
}

// TestPages: following after leads through all, in either order, also from what is deleted.
func TestPages(t *testing.T) {
	k := open(t)
	var ids []string
	for range 5 {
		ids = append(ids, k.fine("o1", "x"))
	}
	k.fine("o0", "x")
	k.fine("o2", "x")
	for _, order := range []string{"asc", "desc"} {
		var got []string
		for after, more := "", true; more; {
			v := k.get("o1", "/v1/files?purpose=batch&limit=2&order="+order+"&after="+after)
			for _, f := range v["data"].([]any) {
				got = append(got, f.(map[string]any)["id"].(string))
			}
			after, more = v["last_id"].(string), v["has_more"].(bool)
		}
		for i := range ids {
			want := ids[i]
			if order == "desc" {
				want = ids[len(ids)-1-i]
			}
			if len(got) != len(ids) || got[i] != want {
				t.Fatalf("%s: %v of %v", order, got, ids)
			}
		}
	}
}
