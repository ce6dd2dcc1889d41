package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestLargeAnswer: an answer of 4 million log-probabilities, 70 MB of JSON, takes no more of the frontend's memory
// than these do as they came, and that is given back; one that is beyond the bound is refused by its figure.
func TestLargeAnswer(t *testing.T) {
	p := serve(t, nil, "--device", "null")
	frontend := p.child("frontend")
	before := memory(t, frontend, "VmRSS")
	prompt := strings.TrimSuffix(strings.Repeat("300,", 8000), ",")
	post := func(n int) *http.Response {
		body := fmt.Sprintf(`{"prompt":[[%s]],"n":%d,"echo":true,"logprobs":20,"max_tokens":1}`, prompt, n)
		response, err := http.Post(p.base+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	response := post(24)
	defer response.Body.Close()
	size, err := io.Copy(io.Discard, response.Body)
	if err != nil || response.StatusCode != http.StatusOK || size < 50e6 {
		t.Errorf("status %d, %d bytes, %v", response.StatusCode, size, err)
	}
	if peak := memory(t, frontend, "VmHWM"); peak > before+200 {
		t.Errorf("the frontend grew from %d to %d MiB", before, peak)
	}
	p.eventually("the memory is given back", func() bool { return memory(t, frontend, "VmRSS") < before+50 })

	refused := post(128)
	if text := readAll(t, refused); refused.StatusCode != http.StatusBadRequest || !strings.Contains(text, "ask for 21506688 log-probabilities") || !strings.Contains(text, "may ask for 16777216;") {
		t.Errorf("beyond the bound: %d %s", refused.StatusCode, text)
	}
}

// memory reads one of the figures of a process, in MiB.
func memory(t *testing.T, pid int, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	figure := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(text)
	if figure == nil {
		t.Fatalf("no %s in %s", name, text)
	}
	kib, err := strconv.Atoi(string(figure[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
