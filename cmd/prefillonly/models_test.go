package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/demo/demotest"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/mq"
)

// variantDir is a directory of the name that has the demo model with other weights.
func variantDir(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := demotest.Variant(dir, name[0]%127+1); err != nil {
		t.Fatal(err)
	}
	return dir
}

// post sends a body under a key, and returns the status and the answer.
func (p *program) post(path, key, body string) (int, string) {
	p.Helper()
	request, err := http.NewRequest("POST", p.base+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	return response.StatusCode, readAll(p, response)
}

// says asks a model for the log-probability of one token, as text.
func (p *program) says(model string) string {
	p.Helper()
	status, answer := p.post("/v1/completions", "key", fmt.Sprintf(`{"model":%q,"prompt":"Will the user like it? Answer Yes or No:","max_tokens":1,"temperature":0,"logprobs":1}`, model))
	score := regexp.MustCompile(`"token_logprobs":\[[^\]]*\]`).FindString(answer)
	if status != 200 || score == "" {
		p.Fatalf("%s: %d %s", model, status, answer)
	}
	return score
}

// states are those of the models that /v1/models lists, by name.
func (p *program) states() map[string]string {
	p.Helper()
	request, err := http.NewRequest("GET", p.base+"/v1/models", nil)
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer key")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	var list struct{ Data []struct{ ID, State string } }
	if err := json.Unmarshal([]byte(readAll(p, response)), &list); err != nil {
		p.Fatal(err)
	}
	states := map[string]string{}
	for _, m := range list.Data {
		states[m.ID] = m.State
	}
	return states
}

// wantStates waits until the frontend has heard of these states, which takes a heartbeat.
func (p *program) wantStates(want map[string]string) {
	p.Helper()
	p.until(fmt.Sprint(want), func() bool { return fmt.Sprint(p.states()) == fmt.Sprint(want) })
}

// TestTwoModels: requests find the model that they name, by any of its names, and get what it says alone.
func TestTwoModels(t *testing.T) {
	a, b := demoDir(t), variantDir(t, "other")
	alone := map[string]string{}
	for name, dir := range map[string]string{"a": a, "other": b} {
		p := serve(t, nil, name+"="+dir)
		alone[name] = p.says(name)
		_ = p.cmd.Process.Kill()
	}
	if alone["a"] == alone["other"] {
		t.Fatalf("both models say %s", alone["a"])
	}
	p := serve(t, nil, "a="+a, b)
	p.wantStates(map[string]string{"a": "absent", "other": "absent"})
	for range 2 {
		for name, want := range alone {
			if got := p.says(name); got != want {
				t.Errorf("%s says %s, and %s alone", name, got, want)
			}
		}
	}
	p.wantStates(map[string]string{"a": "ready", "other": "ready"})
	if status, answer := p.askModel("c"); status != 404 || !strings.Contains(answer, "model_not_found") {
		t.Errorf("an unknown model: %d %s", status, answer)
	}
	if status, answer := p.askModel(""); status != 400 || !strings.Contains(answer, "names no model") {
		t.Errorf("no model: %d %s", status, answer)
	}
}

// TestKeep: a model that is kept always is there before anyone asks and stays; one that is kept for a while leaves
// after it.
func TestKeep(t *testing.T) {
	c := serveFile(t, fmt.Sprintf("models:\n- {name: a, path: %s, keep: always}\n- {name: b, path: %s, keep: {idle: 4s}}\n", demoDir(t), variantDir(t, "b")))
	c.wantStates(map[string]string{"a": "ready", "b": "absent"})
	before := c.says("b")
	c.wantStates(map[string]string{"a": "ready", "b": "ready"})
	c.wantStates(map[string]string{"a": "ready", "b": "absent"})
	if after := c.says("b"); after != before {
		t.Errorf("b says %s, and %s after it was away", before, after)
	}
}

// TestLoadAndUnload: an admin's key does, another does not.
func TestLoadAndUnload(t *testing.T) {
	p := serve(t, []string{"PREFILLONLY_API_KEY=key,root @admin"}, "a="+demoDir(t), "b="+variantDir(t, "b"))
	set := func(key, action string, want int) {
		t.Helper()
		if status, answer := p.post("/v1/models/b/"+action, key, ""); status != want {
			t.Errorf("%s with %q: %d %s, want %d", action, key, status, answer, want)
		}
	}
	set("root", "load", 200)
	p.wantStates(map[string]string{"a": "absent", "b": "ready"})
	before := p.says("b")
	set("root", "unload", 200)
	p.wantStates(map[string]string{"a": "absent", "b": "absent"})
	set("key", "load", 403)
	set("stranger", "load", 401)
	set("root", "explode", 404)
	if after := p.says("b"); after != before {
		t.Errorf("b says %s, and %s after it was loaded again", before, after)
	}
	p.wantStates(map[string]string{"a": "absent", "b": "ready"})
}

// TestRereadModels: SIGHUP adds, removes and changes models under clients of one that stays, without a restart.
func TestRereadModels(t *testing.T) {
	a, b, other := demoDir(t), variantDir(t, "b"), variantDir(t, "c")
	list := func(models ...string) string {
		text := "models:\n"
		for _, m := range models {
			name, dir, _ := strings.Cut(m, "=")
			text += fmt.Sprintf("- {name: %s, path: %s}\n", name, dir)
		}
		return text
	}
	c := serveFile(t, list("a="+a, "b="+b), "--api-server-count", "2")
	wantA, wantB := c.says("a"), c.says("b")
	ask := c.clients("a", wantA)
	const told = "models read anew"
	c.reread(list("a="+a, "b="+b, "c="+other), told)
	c.until("c is served", func() bool { return c.always("c", 200) })
	c.reread(list("a="+a, "c="+b), told) // c is what b was
	c.until("c is changed", func() bool { return c.says("c") == wantB })
	c.until("b is gone", func() bool { return c.always("b", 404) })
	c.reread("models:\n- {name: a, path: "+a, "the configuration is left as it is")
	c.reread(list("a="+a, "none=/no/where"), told)
	c.until("none is refused with a reason", func() bool {
		status, answer := c.askModel("none")
		return status == 503 && strings.Contains(answer, "where: no such file") && !strings.Contains(answer, "/no/where")
	})
	ask.stop()
	if n := strings.Count(c.logged(), "started again"); n != 0 {
		t.Errorf("%d processes were started again", n)
	}
}

// always says that a model answers with a status, whichever frontend is asked.
func (p *program) always(model string, want int) bool {
	p.Helper()
	for range 10 {
		if status, _ := p.askModel(model); status != want {
			return false
		}
	}
	return true
}

// clients ask a model again and again until stop; each answer must be the same.
func (p *program) clients(model, want string) *crowd {
	c := &crowd{p: p, model: model}
	for i := range c.answered {
		c.group.Go(func() {
			for !c.over.Load() {
				status, answer := p.post("/v1/completions", "key", fmt.Sprintf(`{"model":%q,"prompt":"Will the user like it? Answer Yes or No:","max_tokens":1,"temperature":0,"logprobs":1}`, model))
				if status != 200 || !strings.Contains(answer, want) {
					p.Errorf("%s: %d %s, want %s", model, status, answer, want)
					return
				}
				c.answered[i].Add(1)
			}
		})
	}
	return c
}

// crowd is clients that ask a model without pause.
type crowd struct {
	p        *program
	model    string
	group    sync.WaitGroup
	over     atomic.Bool
	answered [3]atomic.Int64
}

// stop ends the clients, of which one at least has had an answer.
func (c *crowd) stop() {
	c.over.Store(true)
	c.group.Wait()
	sum := int64(0)
	for i := range c.answered {
		sum += c.answered[i].Load()
	}
	if sum == 0 {
		c.p.Errorf("nobody asked %s", c.model)
	}
}

// round waits until each client has had an answer: what was asked before is answered.
func (c *crowd) round() {
	for i := range c.answered {
		n := &c.answered[i]
		before := n.Load()
		for deadline := time.Now().Add(60 * time.Second); n.Load() == before && !c.p.Failed(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				c.p.Fatalf("%s: no answer", c.model)
			}
		}
	}
}

// TestMemoryForOneOfTwo: two models that do not fit together are both answered, whoever comes, and are what they are
// alone; one that cannot fit even alone is refused with both figures.
func TestMemoryForOneOfTwo(t *testing.T) {
	a, b := demoDir(t), variantDir(t, "b")
	args := []string{"a=" + a, "b=" + b, "--max-model-len", "1024", "--kv-cache-memory-bytes", "2MiB", "--memory"}
	p := serve(t, nil, append(slices.Clone(args), "1GiB")...)
	wantA, wantB := p.says("a"), p.says("b")
	room, both := planned(t, p, "room_for_weights"), planned(t, p, "weights")
	_ = p.cmd.Process.Kill()

	memory := 1<<10 - room + both*3/4
	p = serve(t, nil, append(slices.Clone(args), fmt.Sprintf("%dMiB", memory))...)
	for range 5 {
		if got := p.says("a"); got != wantA {
			t.Errorf("a says %s, want %s", got, wantA)
		}
		if got := p.says("b"); got != wantB {
			t.Errorf("b says %s, want %s", got, wantB)
		}
	}
	askA, askB := p.clients("a", wantA), p.clients("b", wantB)
	time.Sleep(2 * time.Second)
	askA.stop()
	askB.stop()
	p.until("one of them ready", func() bool { s := p.states(); return s["a"] != s["b"] && (s["a"] == "ready" || s["b"] == "ready") })
	_ = p.cmd.Process.Kill()

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	small := commandContext(ctx, nil, append([]string{"serve", "--port", "0"}, append(args, fmt.Sprintf("%dMiB", memory-both/2))...)...)
	out, _ := small.CombinedOutput()
	if code := small.ProcessState.ExitCode(); code != cli.ExitMemory || !strings.Contains(string(out), "MiB are available, but the weights take") {
		t.Errorf("in memory for none: exit code %d\n%s", code, out)
	}
}

// planned is a figure in MiB of the executor's plan of its memory.
func planned(t *testing.T, p *program, field string) int {
	t.Helper()
	m := regexp.MustCompile(`"memory planned".*"` + field + `":"(\d+) MiB"`).FindStringSubmatch(p.logged())
	if m == nil {
		t.Fatalf("the log has no %s", field)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKilledInLoad: an executor that dies in the middle of a load is started again, and loads again.
func TestKilledInLoad(t *testing.T) {
	p := serve(t, []string{poisonEnv + "=kill a load"}, "a="+demoDir(t), "b="+variantDir(t, "b"))
	first := p.child("executor")
	p.says("b") // the first load is struck
	if n := strings.Count(p.logged(), "is started again"); n != 1 || p.child("executor") == first {
		t.Errorf("%d processes were started again, want the executor", n)
	}
	p.says("a")
	wantA, wantB := p.says("a"), p.says("b")
	askA, askB := p.clients("a", wantA), p.clients("b", wantB)
	for range 3 { // at any time; but no request is struck twice, which would fail it
		p.strike("executor", syscall.SIGKILL)
		askA.round()
		askB.round()
	}
	askA.stop()
	askB.stop()
}

// TestBrokenModel: a model whose files are broken, from the start or later, is refused with the cause, and the other
// one is served; with none that can be, the server ends.
func TestBrokenModel(t *testing.T) {
	good, cut := demoDir(t), variantDir(t, "cut")
	weights := filepath.Join(cut, "model.safetensors")
	wantRefused := func(p *program, want string) {
		t.Helper()
		if status, answer := p.askModel("cut"); status != 503 || !strings.Contains(answer, want) {
			t.Errorf("the broken model: %d %s, want 503 and %q", status, answer, want)
		}
		p.until("the broken model is told as failed", func() bool {
			_, _ = p.askModel("cut") // a second after a load failed the model is absent again
			return p.states()["cut"] == "failed"
		})
		p.says("good")
	}
	p := serve(t, nil, "good="+good, "cut="+cut)
	if err := os.Truncate(weights, 5000); err != nil {
		t.Fatal(err)
	}
	wantRefused(p, "model.safetensors")
	_ = p.cmd.Process.Kill()

	wantRefused(serve(t, nil, "good="+good, "cut="+cut), "model.safetensors")

	whale := variantDir(t, "whale")
	if err := os.WriteFile(filepath.Join(whale, "config.json"), []byte(`{"architectures":["Whale"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefused(serve(t, nil, "good="+good, "cut="+whale), "Whale")

	kept := fmt.Sprintf("models:\n- {name: good, path: %s}\n- {name: cut, path: %s, keep: always}\n", good, cut)
	wantRefused(serveFile(t, kept).program, "model.safetensors") // it does not keep the server from being ready

	none := command(nil, "serve", "--port", "0", "x="+whale, "y="+cut)
	out, _ := none.CombinedOutput()
	if code := none.ProcessState.ExitCode(); code != cli.ExitConfig || !strings.Contains(string(out), "Whale") {
		t.Errorf("only broken models: exit code %d\n%s", code, out)
	}
}

// TestOtherRelease: a scheduler of another release ends an executor and a frontend with both releases.
func TestOtherRelease(t *testing.T) {
	endpoint := "ipc://" + filepath.Join(t.TempDir(), "s.sock")
	l, err := mq.Listen(endpoint, mq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ended by Close
		for {
			peer, _, err := l.Recv(context.Background())
			if err != nil {
				return
			}
			_ = l.Send(peer, &wire.Refused{Version: 9, Release: "7.0"})
		}
	}()
	for _, role := range []string{"executor", "frontend"} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		args := []string{role, "--scheduler-endpoint", endpoint}
		if role == "frontend" {
			args = append(args, "--port", "0")
		}
		peer := commandContext(ctx, nil, args...)
		out, _ := peer.CombinedOutput()
		cancel()
		if code := peer.ProcessState.ExitCode(); code != cli.ExitConfig || !strings.Contains(string(out), `the scheduler is prefillonly "7.0" and speaks version 9`) {
			t.Errorf("the %s ended with %d:\n%s", role, code, out)
		}
	}
}
