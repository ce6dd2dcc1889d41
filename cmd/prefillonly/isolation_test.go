package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// ask posts a prompt of 4,000 tokens under a key, and returns how many of them were cached and how long the
// answer took.
func (p *program) ask(t *testing.T, key string, prompt int, salt string) (cached int, took time.Duration) {
	t.Helper()
	ids := strings.Repeat(fmt.Sprintf("%d,", 300+prompt), 3999) + "301"
	body := fmt.Sprintf(`{"prompt":[%s],"max_tokens":1,"temperature":0,"cache_salt":%q}`, ids, salt)
	request, err := http.NewRequestWithContext(t.Context(), "POST", p.base+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	start := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text := readAll(t, response)
	took = time.Since(start)
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || response.StatusCode != 200 {
		t.Fatalf("%d %s", response.StatusCode, text)
	}
	return answer.Usage.Details.Cached, took
}

// TestKeysDoNotShareTheCache: that a key's prompt is cached shows neither in cached_tokens nor in the time of
// another key's request, unless the two are of a group or the server is told to share.
func TestKeysDoNotShareTheCache(t *testing.T) {
	keys := []string{"PREFILLONLY_API_KEY=one,two,three team,four team"}
	p := serve(t, keys, "--kv-cache-memory-bytes", "256MiB")
	var own, others []time.Duration
	for prompt := range 5 {
		if cached, _ := p.ask(t, "one", prompt, ""); cached != 0 {
			t.Fatalf("prompt %d is new and has %d tokens in the cache", prompt, cached)
		}
		cached, took := p.ask(t, "two", prompt, "")
		if cached != 0 {
			t.Errorf("another key is told of %d cached tokens", cached)
		}
		others = append(others, took)
		if cached, took = p.ask(t, "one", prompt, ""); cached == 0 {
			t.Error("a key does not find what it has left")
		}
		own = append(own, took)
	}
	slices.Sort(own)
	slices.Sort(others)
	if hit, miss := own[2], others[2]; miss < 2*hit {
		t.Errorf("what another key has asked takes %v, what is cached %v", miss, hit)
	}
	p.ask(t, "three", 10, "")
	if cached, _ := p.ask(t, "four", 10, ""); cached == 0 {
		t.Error("keys of a group do not share the cache")
	}
	if cached, _ := p.ask(t, "four", 10, "salt"); cached != 0 {
		t.Error("a cache_salt does not divide the cache of a group")
	}
	for _, salt := range []string{"team", "group team"} {
		if cached, _ := p.ask(t, "one", 10, salt); cached != 0 {
			t.Errorf("a key finds what a group has left by the cache_salt %q", salt)
		}
	}
}

// TestKeysMayShareTheCache: --prefix-cache-isolation none.
func TestKeysMayShareTheCache(t *testing.T) {
	p := serve(t, []string{"PREFILLONLY_API_KEY=one,two"}, "--prefix-cache-isolation", "none")
	p.ask(t, "one", 0, "")
	if cached, _ := p.ask(t, "two", 0, ""); cached == 0 {
		t.Error("the keys do not share the cache")
	}
}
