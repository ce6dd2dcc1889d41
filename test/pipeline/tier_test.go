package pipeline

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// tieredRunner is a small model of random weights with ten pages on its device and fifty in host
// memory.
type tieredRunner struct{ *model.Model }

func (r tieredRunner) Info() wire.ExecutorInfo {
	m := r.Model.Info()
	m.Name = "demo"
	return wire.ExecutorInfo{Device: "ref", CanPause: true, Models: []wire.ModelInfo{m}}
}

func (tieredRunner) Load(string, uint32) (bool, error) { return true, nil }
func (tieredRunner) Drop([]uint32)                     {}

func (r tieredRunner) Save(_ string, copies []wire.Copy) error { return r.Model.Save(copies) }

func (r tieredRunner) Begin(run *wire.Run) (executor.Pass, error) {
	p, err := r.Model.Begin(run)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func openTiered() (executor.Runner, error) {
	config := weights.Config{
		Architectures: []string{"Qwen2ForCausalLM"}, ModelType: "qwen2", VocabSize: 258, HiddenSize: 32, IntermediateSize: 64,
		NumHiddenLayers: 3, NumAttentionHeads: 2, MaxPositionEmbeddings: 512, HiddenAct: "silu",
	}
	m, err := model.New(config, weights.Random{Seed: 5, Type: kernels.BF16}, &kerneltest.Offloading{Backend: ref.New()}, model.Options{BlockTokens: 16})
	if err != nil {
		return nil, err
	}
	if err := m.NewPages(10); err != nil {
		return nil, err
	}
	return tieredRunner{m}, m.NewHostPages(50)
}

func (p *pipeline) startTiered() {
	conn, err := mq.Dial(p.endpoint, mq.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	stop := background(p.t, func(ctx context.Context) error {
		return executor.Run(ctx, executor.Config{Name: "null-0", Heartbeat: 50 * time.Millisecond, Log: zap.NewNop()}, conn, openTiered)
	})
	p.executor = func() { stop(); conn.Close() }
}

// counter reads one of the frontend's metrics.
func (p *pipeline) counter(name string) float64 {
	response, err := http.Get("http://" + p.address + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+"{"); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.Index(rest, "}")+1:]), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return v
		}
	}
	p.t.Fatalf("no metric %s", name)
	return 0
}

// TestHostMemoryKeepsAnswers sends prompts of more users than the device has room for, again and again
// in a random order, and restarts the executor, whose host memory goes with it: every prompt gets the
// same bits each time.
func TestHostMemoryKeepsAnswers(t *testing.T) {
	p := newPipeline(t)
	p.executor()
	p.startTiered()
	var mu sync.Mutex
	answers := map[string]string{}
	clients := func(seed uint64) {
		var group sync.WaitGroup
		for k := range uint64(4) {
			group.Go(func() {
				c, rng := p.dial(), rand.New(rand.NewPCG(seed, k))
				defer c.conn.Close()
				for range 40 {
					user := rng.IntN(8)
					prompt := strings.Repeat(fmt.Sprintf("user %d; ", user), 10+user/2) + fmt.Sprint(rng.IntN(3))
					status, text, err := c.do(fmt.Sprintf(`{"prompt":%q,"add_special_tokens":false,"max_tokens":1,"temperature":0,"logprobs":5}`, prompt))
					if err != nil || status != http.StatusOK {
						t.Errorf("status %d, %v: %s", status, err, text)
						return
					}
					_, got, _ := strings.Cut(text, `"choices":`)
					got, _, _ = strings.Cut(got, `,"usage"`)
					mu.Lock()
					if want, known := answers[prompt]; known && got != want {
						t.Errorf("%q has other bits:\n%s\nbefore:\n%s", prompt, got, want)
					}
					answers[prompt] = got
					mu.Unlock()
				}
			})
		}
		group.Wait()
	}
	for seed := range uint64(3) {
		clients(seed)
		p.executor()
		p.startTiered()
	}
	clients(3)
	time.Sleep(200 * time.Millisecond) // several heartbeats: the counters are the last Welcome's
	found, asked := p.counter("vllm:external_prefix_cache_hits_total"), p.counter("vllm:external_prefix_cache_queries_total")
	t.Logf("%.0f of %.0f tokens that the device did not hold came from host memory", found, asked)
	if found < 1000 || found > asked {
		t.Errorf("%v of %v tokens were found in host memory", found, asked)
	}
}
