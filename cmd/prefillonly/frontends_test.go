package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestFrontendsShareThePort: while one of two frontends is dead or stands still, the port answers through
// the other. A client whose frontend died sees its connection end, and gets its answer when it asks again.
func TestFrontendsShareThePort(t *testing.T) {
	p := serve(t, nil, "--device", "null", "--api-server-count", "2")
	var stop atomic.Bool
	var clients sync.WaitGroup
	var answered, asked, refused atomic.Int64
	for i := range 8 {
		clients.Go(func() {
			client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
			defer client.CloseIdleConnections()
			for !stop.Load() {
				asked.Add(1)
				switch status, text, err := p.askOnce(client, fmt.Sprint("user ", i)); {
				case err != nil && !lostConnection(err):
					t.Errorf("client %d: %v, want an answer or a connection that ends", i, err)
				case err != nil:
					refused.Add(1) // and asked again
				case status != 200:
					t.Errorf("client %d: %d %s, want 200", i, status, text)
				default:
					answered.Add(1)
				}
			}
		})
	}
	for range 3 {
		for _, name := range []string{"frontend-0", "frontend-1"} {
			p.strike(name, syscall.SIGKILL)
			p.progresses(&answered, 50)
		}
	}
	stalled := p.halt("frontend-1") // its connections wait, new ones do not
	p.answers("beside a frontend that stands still")
	_ = syscall.Kill(stalled, syscall.SIGCONT)
	stop.Store(true)
	clients.Wait()
	t.Logf("%d asked, %d answered, %d connections lost", asked.Load(), answered.Load(), refused.Load())
	if lost, most := refused.Load(), int64(6*8); lost > most {
		t.Errorf("%d connections were lost, want at most the %d of the frontends that were killed", lost, most)
	}
}

// progresses waits until so many more requests are answered.
func (p *program) progresses(answered *atomic.Int64, more int64) {
	p.Helper()
	before := answered.Load()
	for deadline := time.Now().Add(60 * time.Second); answered.Load() < before+more && !p.Failed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("%d more requests were answered in a minute, want %d", answered.Load()-before, more)
		}
	}
}

// askOnce is complete whose answer is read with the error that cut it off, if any.
func (p *program) askOnce(client *http.Client, prompt string) (int, string, error) {
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"temperature":0}`, prompt)
	response, err := client.Post(p.base+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// lostConnection says that err is what a client sees when its frontend dies; a port that nobody listens
// on is not that.
func lostConnection(err error) bool {
	for _, how := range []string{"EOF", "connection reset", "broken pipe"} {
		if strings.Contains(err.Error(), how) {
			return true
		}
	}
	return false
}

// TestStreamOfADeadFrontend: a stream that is cut off does not look whole: it lacks [DONE] and ends in an
// error.
func TestStreamOfADeadFrontend(t *testing.T) {
	p := serve(t, nil, "--api-server-count", "2")
	body := `{"prompt":"Once","max_tokens":8000,"stream":true,"allowed_token_ids":[300,301]}`
	client := &http.Client{Timeout: 60 * time.Second}
	response, err := client.Post(p.base+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"frontend-0", "frontend-1"} { // one of them holds the stream
		p.strike(name, syscall.SIGKILL)
	}
	rest, err := io.ReadAll(response.Body)
	if err == nil || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("a stream whose frontend died ends with %v and %.100q", err, rest[max(0, len(rest)-100):])
	}
	p.answers("asked again")
}

// TestMetricsOfFrontends: whichever frontend is asked tells what all of them have done; one that stands
// still is left out, and what the scheduler counts is told once.
func TestMetricsOfFrontends(t *testing.T) {
	p := serve(t, nil, "--device", "null", "--api-server-count", "2", "--hang-timeout", "0")
	const requests = 40
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}} // so that either frontend answers
	for i := range requests {
		if status, text, err := p.askOnce(client, fmt.Sprint("user ", i)); err != nil || status != 200 {
			t.Fatalf("%d %s %v", status, text, err)
		}
	}
	finished := regexp.MustCompile(`(?m)^vllm:request_success_total\{.*finished_reason="length",frontend="(frontend-\d)".*\} (\d+)$`)
	read := func() string {
		response, err := client.Get(p.base + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, response)
		if n := strings.Count(text, "\nvllm:num_requests_running{"); response.StatusCode != 200 || n != 1 {
			t.Errorf("status %d, %d values of what the scheduler counts, want 1\n%s", response.StatusCode, n, text)
		}
		return text
	}
	for range 8 {
		sum := 0
		for _, match := range finished.FindAllStringSubmatch(read(), -1) {
			n, _ := strconv.Atoi(match[2])
			sum += n
		}
		if sum != requests {
			t.Errorf("the frontends have answered %d requests together, want %d", sum, requests)
		}
	}
	stopped := p.halt("frontend-0")
	for range 3 {
		if found := finished.FindAllStringSubmatch(read(), -1); len(found) != 1 || found[0][1] != "frontend-1" {
			t.Errorf("beside a stopped frontend the others are %v, want frontend-1", found)
		}
	}
	_ = syscall.Kill(stopped, syscall.SIGCONT)
}
