// Package llmd holds the KV events of a running server against an unmodified consumer of them: the
// subscriber and the index of llm-d, which its cache-aware router is made of. It is a module of its
// own, so that the consumer's dependencies are not the project's.
package llmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llm-d/llm-d-kv-cache/pkg/kvcache/kvblock"
	"github.com/llm-d/llm-d-kv-cache/pkg/kvevents"
	"github.com/llm-d/llm-d-kv-cache/pkg/kvevents/engineadapter"
)

const (
	pod   = "pod-7"
	model = "prefillonly-demo"
)

// router is what a cache-aware router knows of one server.
type router struct {
	*testing.T
	url    string
	server *exec.Cmd
	index  kvblock.Index
	keys   kvblock.TokenProcessor
}

// start runs the server and the consumer, both with blocks of so many tokens, and returns when events
// have gone from one to the other: a subscriber that has just connected misses the first ones.
func start(t *testing.T, serverBlock, consumerBlock int) *router {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "prefillonly")
	build := exec.Command("go", "build", "-o", binary, "./cmd/prefillonly")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	port, events := freePort(t), freePort(t)
	r := &router{T: t, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	r.server = exec.Command(binary, "serve", "--device", "null", "--port", strconv.Itoa(port), "--block-size", strconv.Itoa(serverBlock),
		"--no-access-log", "--log-level", "warn",
		"--kv-events-config", fmt.Sprintf(`{"enable_kv_cache_events":true,"endpoint":"tcp://*:%d","topic":"kv@%s@%s"}`, events, pod, model))
	r.server.Stderr = os.Stderr
	if err := r.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.server.Process.Signal(syscall.SIGTERM)
		_ = r.server.Wait()
	})
	r.consume(fmt.Sprintf("tcp://127.0.0.1:%d", events), consumerBlock)
	r.until("the server is ready", func() bool {
		response, err := http.Get(r.url + "/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	n := 0
	r.until("events are followed", func() bool {
		n++
		ids := r.complete(fmt.Sprintf("%d. ", n)+strings.Repeat("nothing to see here ", 40), "")
		return r.resident(ids, nil) > 0
	})
	return r
}

// consume starts llm-d's subscriber and index.
func (r *router) consume(endpoint string, block int) {
	ctx, cancel := context.WithCancel(context.Background())
	r.Cleanup(cancel)
	var err error
	if r.keys, err = kvblock.NewChunkedTokenDatabase(&kvblock.TokenProcessorConfig{BlockSizeTokens: block}); err != nil {
		r.Fatal(err)
	}
	if r.index, err = kvblock.NewIndex(ctx, kvblock.DefaultIndexConfig()); err != nil {
		r.Fatal(err)
	}
	adapter, err := engineadapter.NewAdapter(engineadapter.EngineTypeVLLM)
	if err != nil {
		r.Fatal(err)
	}
	pool := kvevents.NewPool(kvevents.DefaultConfig(), r.index, r.keys, adapter)
	pool.Start(ctx)
	r.Cleanup(func() { pool.Shutdown(context.Background()) })
	if err := kvevents.NewSubscriberManager(pool).EnsureSubscriber(ctx, pod, endpoint, "kv@", true); err != nil {
		r.Fatal(err)
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (r *router) until(what string, done func() bool) {
	r.Helper()
	for end := time.Now().Add(60 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("not within 40 s: %s", what)
		}
	}
}

// complete has a prompt answered, and returns its token ids as the server renders them.
func (r *router) complete(prompt, salt string) []uint32 {
	r.Helper()
	request := map[string]any{"model": model, "prompt": prompt, "max_tokens": 1}
	if salt != "" {
		request["cache_salt"] = salt
	}
	r.post("/v1/completions", request, &struct{}{})
	var rendered []struct {
		TokenIDs []uint32 `json:"token_ids"`
	}
	r.post("/v1/completions/render", request, &rendered)
	return rendered[0].TokenIDs
}

func (r *router) post(path string, request, answer any) {
	r.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		r.Fatal(err)
	}
	response, err := http.Post(r.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil || response.StatusCode != http.StatusOK {
		r.Fatalf("%s: %s %s %v", path, response.Status, text, err)
	}
}

// resident is for how many blocks of the prompt, from its beginning, the index names the server. Salt
// is what a router would mix into the first block's key.
func (r *router) resident(ids []uint32, salt []*kvblock.BlockExtraFeatures) int {
	r.Helper()
	keys, err := r.keys.TokensToKVBlockKeys(kvblock.EmptyBlockHash, ids, model, salt)
	if err != nil {
		r.Fatal(err)
	}
	if len(keys) == 0 {
		r.Fatalf("%d tokens fill no block", len(ids))
	}
	found, err := r.index.Lookup(context.Background(), keys, nil)
	if err != nil {
		r.Fatal(err)
	}
	for i, key := range keys {
		entries := found[key]
		if len(entries) == 0 {
			return i
		}
		if entries[0].PodIdentifier != pod || entries[0].DeviceTier != "gpu" {
			r.Fatalf("block %d is said to be at %+v", i, entries)
		}
	}
	return len(keys)
}

// TestIndexFollowsTheCache: the consumer finds the server for every full block of prompts that were
// answered, alone, with a shared prefix and salted, and no longer once the executor has died.
func TestIndexFollowsTheCache(t *testing.T) {
	for name, blocks := range map[string][2]int{"same blocks": {16, 16}, "larger blocks than the router's": {64, 16}} {
		t.Run(name, func(t *testing.T) {
			r := start(t, blocks[0], blocks[1])
			profile := "User profile: " + strings.Repeat("likes sailing, chess and finance; ", 30)
			// The block of the last token is never cached: at least one token is computed anew.
			full := func(ids []uint32) int { return (len(ids) - 1) / blocks[0] * blocks[0] / blocks[1] }
			for _, post := range []string{"", "Post: best tide of the week", "Post: " + strings.Repeat("an opening for beginners ", 30)} {
				ids := r.complete(profile+post, "")
				r.until(fmt.Sprintf("%d blocks of %q are indexed", full(ids), post), func() bool { return r.resident(ids, nil) >= full(ids) })
			}
			r.salted(blocks)
			ids := r.complete(profile, "")
			r.killExecutor()
			r.until("the index is cleared", func() bool { return r.resident(ids, nil) == 0 })
		})
	}
}

// salted: a tenant's blocks are found with its salt alone.
func (r *router) salted(blocks [2]int) {
	ids := r.complete(strings.Repeat("a secret of one tenant ", 30), "tenant-1")
	features := make([]*kvblock.BlockExtraFeatures, len(ids)/blocks[1])
	for i := range blocks[0] / blocks[1] { // the first block of the server
		features[i] = &kvblock.BlockExtraFeatures{MMHashes: []kvblock.MMHash{{Hash: "tenant-1"}}}
	}
	r.until("a salted prompt is indexed", func() bool { return r.resident(ids, features) > 0 })
	if n := r.resident(ids, nil); n > 0 {
		r.Errorf("%d blocks of a salted prompt are found without its salt", n)
	}
}

// killExecutor kills the server's child of that role.
func (r *router) killExecutor() {
	r.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.server.Process.Pid))
	if err != nil {
		r.Fatal(err)
	}
	var children []byte
	for _, task := range tasks {
		if more, err := os.ReadFile(task); err == nil { // a thread may have ended
			children = append(append(children, ' '), more...)
		}
	}
	for _, child := range strings.Fields(string(children)) {
		command, err := os.ReadFile("/proc/" + child + "/cmdline")
		if err != nil || !bytes.Contains(command, []byte("\x00executor\x00")) {
			continue
		}
		id, err := strconv.Atoi(child)
		if err != nil {
			r.Fatal(err)
		}
		if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
			r.Fatal(err)
		}
		return
	}
	r.Fatal("the server has no executor")
}
