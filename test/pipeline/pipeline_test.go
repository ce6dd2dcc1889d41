// Package pipeline holds frontend, scheduler and executor, joined by ZeroMQ, to what they promise
// together: no request is lost when one of them restarts, and little time is added to a pass. The
// model step is a null runner, or a small model where answers count.
package pipeline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/frontend"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/scheduler"
)

// nullRunner answers each item with the first token that is allowed, or where all are with one made of its length and
// draw, in no time.
type nullRunner struct{}

func (nullRunner) Info() wire.ExecutorInfo {
	limits := &wire.TokenLimits{VocabSize: 258, MaxModelLen: 4096, BlockTokens: 16, NumBlocks: 1024, MaxPassRows: 1 << 16}
	return wire.ExecutorInfo{Device: "null", CanPause: true, Models: []wire.ModelInfo{{Name: "demo", Tokens: limits}}}
}
func (nullRunner) Load(string, uint32) (bool, error)          { return true, nil }
func (nullRunner) Drop([]uint32)                              {}
func (nullRunner) Begin(run *wire.Run) (executor.Pass, error) { return &nullPass{run}, nil }
func (nullRunner) Close()                                     {}

// nullPass is done after one step.
type nullPass struct{ run *wire.Run }

func (p *nullPass) Step() (bool, error) { return true, nil }
func (p *nullPass) Boundary() bool      { return true }
func (p *nullPass) Share() float64      { return 1 }
func (p *nullPass) Close()              {}
func (p *nullPass) Results() []wire.ItemResult {
	out := make([]wire.ItemResult, len(p.run.Items))
	for i, run := range p.run.Items {
		item := run.Work.(*wire.TokenItem)
		id := engine.TokenID('a' + (item.Len()+item.Draw)%26)
		if !item.Ask.Allowed.Empty() {
			id = item.Ask.Allowed.IDs()[0]
		}
		out[i] = wire.ItemResult{Job: run.Job, Output: &engine.TokenOutput{Answer: &engine.Answer{Token: id, Logprob: -0.5}}}
	}
	return out
}

// pipeline is a frontend, a scheduler and an executor joined by ZeroMQ in one process.
type pipeline struct {
	t                   testing.TB
	runner              executor.Runner // of executors that are started
	endpoint, address   string
	scheduler, executor func() // stop them
}

func newPipeline(t testing.TB) *pipeline { return newPipelineOf(t, nullRunner{}) }

func newPipelineOf(t testing.TB, runner executor.Runner) *pipeline {
	p := &pipeline{t: t, runner: runner, endpoint: "ipc://" + filepath.Join(t.TempDir(), "s")}
	p.startScheduler()
	p.startExecutor()
	conn, err := mq.Dial(p.endpoint, mq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pool := client.New(client.Config{Heartbeat: 50 * time.Millisecond}, conn, zap.NewNop())
	texts := text.Text{Tokenizer: tokenizer.NewBytes(), Template: chat{}}
	demo := registry.Model{Name: "demo", Open: func() (*text.Text, error) { return &texts, nil }}
	f, err := frontend.New(frontend.Config{}, []registry.Model{demo}, pool, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = listener.Addr().String()
	stop := background(t, func(ctx context.Context) error {
		return pool.Serve(ctx, func(ctx context.Context) error { return f.Serve(ctx, listener) })
	})
	t.Cleanup(func() {
		stop()
		p.executor()
		p.scheduler()
		conn.Close()
	})
	return p
}

// background runs a server until the function that is returned is called.
func background(t testing.TB, run func(context.Context) error) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// startScheduler starts one with an epoch of its own, after what options do to it.
func (p *pipeline) startScheduler(options ...func(*scheduler.Server)) {
	listener, err := mq.Listen(p.endpoint, mq.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	begun := time.Now()
	s, err := scheduler.NewServer(scheduler.DefaultConfig(), rand.Uint64()>>1, func() time.Duration { return time.Since(begun) })
	if err != nil {
		p.t.Fatal(err)
	}
	for _, set := range options {
		set(s)
	}
	stop := background(p.t, func(ctx context.Context) error { return s.Run(ctx, listener) })
	p.scheduler = func() { stop(); listener.Close() }
}

func (p *pipeline) startExecutor() {
	conn, err := mq.Dial(p.endpoint, mq.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	stop := background(p.t, func(ctx context.Context) error {
		return executor.Run(ctx, executor.Config{Name: "null-0", Heartbeat: 50 * time.Millisecond, Log: zap.NewNop()}, conn, func() (executor.Runner, error) { return p.runner, nil })
	})
	p.executor = func() { stop(); conn.Close() }
}

// chat refuses: the null runner has no chat template.
type chat struct{}

func (chat) RenderChat([]byte, text.ChatOptions) (string, error) {
	return "", errors.New("no chat template")
}

func (chat) TokenizerInfo() map[string]json.RawMessage { return nil }

// caller sends requests over one connection.
type caller struct {
	conn   net.Conn
	reader *bufio.Reader
}

func (p *pipeline) dial() *caller {
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	return &caller{conn, bufio.NewReader(conn)}
}

func (c *caller) do(body string) (int, string, error) {
	_, err := fmt.Fprintf(c.conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		return 0, "", err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// TestEveryRequestIsAnswered restarts executor and scheduler in turn under eight clients.
func TestEveryRequestIsAnswered(t *testing.T) {
	p := newPipeline(t)
	var over atomic.Bool
	var served atomic.Int64
	var group sync.WaitGroup
	for k := range 8 {
		group.Go(func() {
			c := p.dial()
			defer c.conn.Close()
			for n := 0; !over.Load(); n++ {
				if err := c.ask(1+(n*7+k)%60, 1+n%3); err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
			}
		})
	}
	for range 5 {
		time.Sleep(100 * time.Millisecond)
		p.executor()
		time.Sleep(20 * time.Millisecond)
		p.startExecutor()
		time.Sleep(100 * time.Millisecond)
		p.scheduler()
		time.Sleep(20 * time.Millisecond)
		p.startScheduler()
	}
	time.Sleep(100 * time.Millisecond)
	over.Store(true)
	group.Wait()
	if served.Load() < 100 {
		t.Errorf("only %d requests were answered", served.Load())
	}
}

// ask sends a prompt of some length and checks that the answer is nullRunner's.
func (c *caller) ask(length, tokens int) error {
	status, text, err := c.do(fmt.Sprintf(`{"prompt":"%s","add_special_tokens":false,"max_tokens":%d,"temperature":0}`, strings.Repeat("x", length), tokens))
	if err != nil {
		return err
	}
	want := ""
	for i := range tokens {
		want += string(rune('a' + (length+2*i)%26)) // a token longer, and the next draw
	}
	if status != http.StatusOK || !strings.Contains(text, `"text":"`+want+`"`) {
		return fmt.Errorf("%d tokens, %d to come: status %d: %s; want %s", length, tokens, status, text, want)
	}
	return nil
}

const body32 = `{"model":"demo","prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32],"max_tokens":1,"temperature":0}`

// BenchmarkLatency is one request of 32 tokens at a time.
func BenchmarkLatency(b *testing.B) {
	p := newPipeline(b)
	c := p.dial()
	defer c.conn.Close()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if status, text, err := c.do(body32); status != 200 || err != nil {
			b.Fatal(status, text, err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

// BenchmarkThroughput is requests of 32 tokens from 64 connections.
func BenchmarkThroughput(b *testing.B) {
	p := newPipeline(b)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		c := p.dial()
		defer c.conn.Close()
		for pb.Next() {
			if status, text, err := c.do(body32); status != 200 || err != nil {
				b.Error(status, text, err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}
