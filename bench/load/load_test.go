package load

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fake is an OpenAI-compatible server that answers after handle returns.
func fake(t *testing.T, handle func(body map[string]any) int) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer wrong" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"this key is not known"}}`)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"demo"}]}`)
	})
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if status := handle(body); status != http.StatusOK {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":{"message":"the queue is full"}}`)
			return
		}
		fmt.Fprint(w, `{"usage":{"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":16}}}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func every(gap time.Duration, n int) []Request {
	var requests []Request
	for i := range n {
		requests = append(requests, Request{
			At: time.Duration(i) * gap, User: fmt.Sprint("u", i%2), MaxTokens: 1,
			Prompt: Prompt{Shape: Shape{PrefixTokens: 10, Suffix: uint64(i), SuffixTokens: 10}},
		})
	}
	return requests
}

// A server that stands still for 300 ms must show in the latencies of all requests that were due
// meanwhile, not in one alone.
func TestStallShowsInEveryRequestDueMeanwhile(t *testing.T) {
	const stall = 300 * time.Millisecond
	var device sync.Mutex
	var seen atomic.Int32
	server := fake(t, func(map[string]any) int {
		device.Lock()
		defer device.Unlock()
		if seen.Add(1) == 1 {
			time.Sleep(stall)
		}
		return http.StatusOK
	})
	records, err := client(t, Options{BaseURL: server.URL, Model: "demo"}).Run(t.Context(), every(10*time.Millisecond, 20))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		if least := stall - time.Duration(i)*10*time.Millisecond; r.Err != "" || r.Latency() < least {
			t.Errorf("request %d: latency %v below %v (error %q)", i, r.Latency(), least, r.Err)
		}
		if r.Sent-r.Scheduled > 150*time.Millisecond {
			t.Errorf("request %d was held back by %v", i, r.Sent-r.Scheduled)
		}
	}
}

func TestClosedLoopBoundsConcurrency(t *testing.T) {
	var open, most atomic.Int32
	server := fake(t, func(map[string]any) int {
		n := open.Add(1)
		defer open.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		return http.StatusOK
	})
	records, err := client(t, Options{BaseURL: server.URL, Model: "demo", MaxConcurrency: 3}).Run(t.Context(), every(0, 30))
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() != 3 {
		t.Errorf("%d requests were open at once, want 3", most.Load())
	}
	s := Summarize(records)
	if s.Failed != 0 || len(s.Latency) != 30 || s.Latency[0] < 5*time.Millisecond {
		t.Errorf("summary %+v", s)
	}
	if r := records[29]; r.Scheduled < 30*time.Millisecond {
		t.Errorf("the last request of the closed loop counts as due at %v", r.Scheduled)
	}
}

func TestBodyAndRecord(t *testing.T) {
	var bodies sync.Map
	server := fake(t, func(body map[string]any) int {
		bodies.Store(body["user"], body)
		return http.StatusOK
	})
	c := client(t, Options{BaseURL: server.URL + "/v1", Vocabulary: Vocabulary{Low: 5, High: 9}})
	if model, err := c.Connect(t.Context()); err != nil || model != "demo" {
		t.Fatal(model, err)
	}
	requests := []Request{
		{User: "text", MaxTokens: 1, Prompt: Prompt{Text: "hello"}, Allowed: []uint32{7, 8}},
		{User: "ids", Model: "other", MaxTokens: 2, Prompt: Prompt{Tokens: []uint32{1, 2}}},
		{User: "shape", MaxTokens: 1, Prompt: Prompt{Shape: Shape{SuffixTokens: 4}}},
	}
	records, err := c.Run(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]string{
		"text": `{"allowed_token_ids":[7,8],"max_tokens":1,"model":"demo","prompt":"hello","temperature":0,"user":"text"}`,
		"ids":  `{"max_tokens":2,"model":"other","prompt":[1,2],"temperature":0,"user":"ids"}`,
	} {
		body, _ := bodies.Load(user)
		if got, _ := json.Marshal(body); string(got) != want {
			t.Errorf("%s: sent %s, want %s", user, got, want)
		}
	}
	shape, _ := bodies.Load("shape")
	for _, id := range shape.(map[string]any)["prompt"].([]any) {
		if id.(float64) < 5 || id.(float64) >= 9 {
			t.Errorf("token %v is outside the vocabulary", id)
		}
	}
	for _, r := range records {
		if r.Status != 200 || r.Tokens != 20 || r.Cached != 16 || r.FirstByte < r.Sent || r.Done < r.FirstByte {
			t.Errorf("record %+v", r)
		}
	}
	var b bytes.Buffer
	if err := WriteCSV(&b, records); err != nil {
		t.Fatal(err)
	}
	if rows, err := csv.NewReader(&b).ReadAll(); err != nil || len(rows) != 4 || rows[1][1] != "text" || rows[3][9] != "16" || rows[2][11] != "other" {
		t.Errorf("CSV %v, %v", rows, err)
	}
}

func TestFailuresAreRecorded(t *testing.T) {
	release := make(chan struct{})
	server := fake(t, func(body map[string]any) int {
		if body["user"] == "u0" {
			return http.StatusTooManyRequests
		}
		<-release
		return http.StatusOK
	})
	records, err := client(t, Options{BaseURL: server.URL, Model: "demo", Timeout: 50 * time.Millisecond}).Run(t.Context(), every(0, 2))
	close(release)
	if err != nil {
		t.Fatal(err)
	}
	if r := records[0]; r.Status != 429 || r.Err != "the queue is full" {
		t.Errorf("refused request: %+v", r)
	}
	if r := records[1]; r.Status != 0 || r.Err != "timeout" {
		t.Errorf("request without an answer: %+v", r)
	}
	if s := Summarize(records); s.Failed != 2 || s.Throughput != 0 {
		t.Errorf("summary %+v", s)
	}
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	if _, err := client(t, Options{BaseURL: "http://" + address}).Connect(t.Context()); err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: error %v", err)
	}
	server := fake(t, nil)
	if _, err := client(t, Options{BaseURL: server.URL, APIKey: "wrong"}).Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "key is not known") {
		t.Errorf("wrong key: error %v", err)
	}
	for _, bad := range []string{"", "localhost:8000", "ftp://x", "http://", "http://a b"} {
		if _, err := New(Options{BaseURL: bad}); err == nil {
			t.Errorf("base URL %q was taken", bad)
		}
	}
}

func TestCancelEndsTheRun(t *testing.T) {
	server := fake(t, func(map[string]any) int { return http.StatusOK })
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	records, err := client(t, Options{BaseURL: server.URL, Model: "demo"}).Run(ctx, every(20*time.Millisecond, 1000))
	if err == nil || len(records) == 0 || len(records) > 10 {
		t.Errorf("%d records, error %v", len(records), err)
	}
}

func TestPercentileIsNearestRank(t *testing.T) {
	sorted := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for p, want := range map[float64]time.Duration{0: 1, 10: 1, 11: 2, 50: 5, 90: 9, 99: 10, 100: 10} {
		if got := Percentile(sorted, p); got != want {
			t.Errorf("P%v = %d, want %d", p, got, want)
		}
	}
	if Percentile(nil, 50) != 0 {
		t.Error("a percentile of nothing is not 0")
	}
}

func TestProgressShowsRateAndPercentiles(t *testing.T) {
	p := NewProgress(&bytes.Buffer{}, 1)
	p.done, p.failed, p.latencies = 20, 1, []time.Duration{time.Millisecond, 3 * time.Millisecond}
	if got, want := p.formatRates(2*time.Second), "10.0 req/s  P50 1ms  P99 3ms  1 failed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
