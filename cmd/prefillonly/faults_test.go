package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
)

// poison is a token that does harm to the executor of a program run with poisonEnv, whose value says what.
const (
	poison    = engine.TokenID(666)
	poisonEnv = "POISONED_RUNNER"
)

// harms are what poison does; the last two happen while the device is opened, the first time.
var harms = map[string]func(){
	"kill":         func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) },
	"panic":        func() { go panic("poisoned"); select {} }, // nobody recovers it
	"hang":         func() { select {} },
	"compute":      compute,
	"hang loading": func() { select {} },
	"slow loading": compute,
}

// computing is longer than the processes under test may be silent, and hangTimeout how long that is.
const (
	computing   = 10 * time.Second
	hangTimeout = 3 * time.Second
)

func compute() {
	for end := time.Now().Add(computing); time.Now().Before(end); {
	}
}

// poisoned is a Runner with a fatal defect.
type poisoned struct {
	device.Runner
	harm    func()
	loading func() // nil: no harm
}

func (r poisoned) Begin(run *wire.Run) (executor.Pass, error) {
	for i := range run.Items {
		if slices.Contains(run.Items[i].Work.(*wire.TokenItem).Tokens, poison) {
			r.harm()
		}
	}
	return r.Runner.Begin(run)
}

// Load is struck in its middle, the first time that there is one.
func (r poisoned) Load(model string, weight uint32) (done bool, err error) {
	if r.loading != nil && weight > 0 {
		r.loading()
	}
	return r.Runner.Load(model, weight)
}

// injectFaults is called by the program under test.
func injectFaults() {
	what := os.Getenv(poisonEnv)
	if what == "" {
		return
	}
	open := openRunner
	openRunner = func(cfg *config.Config, blobs dnn.Blobs, v *roles.Vitals, log *zap.Logger) (device.Runner, error) {
		r, err := open(cfg, blobs, v, log)
		if strings.HasSuffix(what, "loading") && firstTime(cfg) {
			harms[what]()
		}
		p := poisoned{Runner: r, harm: harms[what]}
		if what == "kill a load" {
			p.loading = func() {
				if firstTime(cfg) {
					harms["kill"]()
				}
			}
		}
		return p, err
	}
}

// firstTime says once that it is, to all processes of a server.
func firstTime(cfg *config.Config) bool {
	return os.Mkdir(filepath.Join(cfg.RuntimeDir, "loaded-before"), 0o700) == nil
}

func poisonedRequest() io.Reader {
	return strings.NewReader(fmt.Sprintf(`{"prompt":[1,%d,2],"max_tokens":1}`, poison))
}

// TestPoisonedRequest: a request that kills its executor is run twice, then refused by name; requests
// beside it get their answers.
func TestPoisonedRequest(t *testing.T) {
	p := serve(t, []string{poisonEnv + "=kill"}, "--device", "null")
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for !stop.Load() {
				if status, text, err := p.complete(http.DefaultClient, fmt.Sprint("user ", i), 1); err != nil || status != 200 {
					t.Errorf("a healthy request got %d %s %v", status, text, err)
					return
				}
			}
		})
	}
	deaths := func() int { return strings.Count(p.logged(), "is started again") }
	response, err := http.Post(p.base+"/v1/completions", "application/json", poisonedRequest())
	if err != nil {
		t.Fatal(err)
	}
	text := readAll(t, response)
	if response.StatusCode != 500 || !strings.Contains(text, "2 executors died") {
		t.Errorf("the poisoned request got %d %s", response.StatusCode, text)
	}
	time.Sleep(300 * time.Millisecond) // time for a third run, should there be one
	stop.Store(true)
	wg.Wait()
	if n := deaths(); n != 2 {
		t.Errorf("%d executors died, want 2", n)
	}
}
