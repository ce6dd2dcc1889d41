package scheduler

import (
	"math"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// choices turns a fuzzer's bytes into choices; when they run out every choice is 0.
type choices struct{ data []byte }

func (c *choices) IntN(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := int(c.data[0])
	c.data = c.data[1:]
	return b % n
}

func (c *choices) spent() bool { return len(c.data) == 0 }

// FuzzHistories lets the fuzzer choose what well-behaved peers do: everything must hold that holds of
// random histories.
func FuzzHistories(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte("submit, submit again, let executors live and die, and be done with it all at last"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{data}
		cfg := DefaultConfig()
		cfg.Policy = Policies()[c.IntN(len(Policies()))]
		cfg.FullKV = c.IntN(4) == 0
		h := newHistory(t, c, cfg, nil)
		h.deep = true
		for range 300 {
			if c.spent() {
				break
			}
			h.move()
		}
		h.drain()
	})
}

// FuzzHostileMessages sends any message from anybody with any numbers: the Core must not panic, nor
// lose count of pages, and must answer each job at most once.
func FuzzHostileMessages(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0, 0, 1, 1, 1, 2, 0, 3, 3, 0, 5, 5, 1, 5, 3, 0, 8, 2, 7, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{data}
		cfg := DefaultConfig()
		cfg.Policy = Policies()[c.IntN(len(Policies()))]
		cfg.MaxQueuedJobs = 8
		core, err := NewCore(cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		var now time.Duration
		for range 400 {
			if c.spent() {
				break
			}
			now += time.Duration(c.IntN(16)) * 200 * time.Millisecond
			from := []PeerID{"a", "b", "c", "d", ""}[c.IntN(5)]
			core.Step(now, from, hostile(c))
			if err := core.fleet.CheckIntegrity(nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func hostile(c *choices) wire.Message {
	pass := wire.PassID(c.IntN(6))
	switch c.IntN(10) {
	case 0, 1:
		return hostileHello(c)
	case 2, 3:
		return hostileSubmit(c)
	case 4:
		return &wire.Cancel{Job: engine.JobID(c.IntN(6))}
	case 5, 6:
		d := &wire.Done{Pass: pass, Took: time.Duration(c.IntN(3)-1) * time.Second}
		for range c.IntN(3) {
			r := wire.ItemResult{Job: engine.JobID(c.IntN(6))}
			if c.IntN(3) > 0 {
				r.Output = &engine.TokenOutput{Answer: &engine.Answer{Token: engine.TokenID(c.IntN(200))}}
			}
			d.Items = append(d.Items, r)
		}
		if c.IntN(6) == 0 {
			d.Err = engine.Errorf(engine.CodeInternal, "failed")
		}
		return d
	case 7:
		return &wire.Paused{Pass: pass, Share: float64(c.IntN(256)-3) / 200}
	case 8:
		return &wire.Next{Job: engine.JobID(c.IntN(6)), Generated: c.IntN(8) - 1, Tokens: tokens(c.IntN(2), c.IntN(5)), Open: c.IntN(2) == 0}
	}
	return []wire.Message{&wire.Tick{}, &wire.Lost{}, &wire.Run{}, &wire.Welcome{}, nil}[c.IntN(5)]
}

func hostileHello(c *choices) wire.Message {
	m := &wire.Hello{
		Role:  []wire.Role{wire.RoleFrontend, wire.RoleExecutor, "stranger"}[c.IntN(3)],
		Name:  []string{"a", "b", ""}[c.IntN(3)],
		Epoch: uint64(c.IntN(2)),
	}
	if c.IntN(8) > 0 {
		info := llm{
			Model: []string{"m", "n"}[c.IntN(2)], Fingerprint: []string{"f", "g"}[c.IntN(2)],
			VocabSize: 100 * c.IntN(3), MaxModelLen: 20 * c.IntN(3), BlockTokens: c.IntN(5), NumBlocks: c.IntN(9) - 1,
			MaxPassRows: c.IntN(40) - 1, CanPause: true, CostToken: time.Duration(c.IntN(3)-1) * time.Millisecond,
			CostPair: []float64{0, 1e-9, -1, math.Inf(1), math.NaN()}[c.IntN(5)],
		}
		m.Executor = info.info()
	}
	return m
}

func hostileSubmit(c *choices) wire.Message {
	m := &submission{
		Job: engine.JobID(c.IntN(6)), Model: []string{"m", "n", ""}[c.IntN(3)], Tokens: tokens(c.IntN(2), c.IntN(30)),
		MaxTokens: c.IntN(6) - 1, Open: c.IntN(2) == 0, Generated: c.IntN(4) - 1, Priority: c.IntN(256) - 128, Request: engine.JobID(c.IntN(3)),
		Deadline: time.Duration(c.IntN(4)-1) * time.Second, Waited: time.Duration(c.IntN(4)-1) * time.Second,
	}
	for i := range m.Tokens {
		m.Tokens[i] %= 110
	}
	m.Ask.Temperature = []float32{0, 1, -1, float32(math.NaN())}[c.IntN(4)]
	m.Ask.Bias = []engine.TokenBias{{ID: engine.TokenID(c.IntN(256)), Bias: 1}}
	m.Ask.PromptLogprobs = c.IntN(4) == 0
	return m.message()
}
