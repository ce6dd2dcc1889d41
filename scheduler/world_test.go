package scheduler

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// world is a Core with peers that a test speaks for.
type world struct {
	t    testing.TB
	core *Core
	now  time.Duration
}

func newWorld(t testing.TB, cfg Config) *world {
	t.Helper()
	core, err := NewCore(cfg, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, core: core}
}

// step gives the Core a message and returns what it sends, Welcomes left out.
func (w *world) step(from PeerID, m wire.Message) []Envelope {
	var out []Envelope
	for _, e := range w.core.Step(w.now, from, m) {
		if _, ok := e.Msg.(*wire.Welcome); !ok {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) frontend(name PeerID) {
	w.step(name, &wire.Hello{Role: wire.RoleFrontend, Name: string(name), Epoch: 1})
}

// tickUntil lets time pass as a Server does, and returns what the Core sends.
func (w *world) tickUntil(t time.Duration) (out []Envelope) {
	for w.now < t {
		w.now = min(w.now+time.Second, t)
		out = append(out, w.step("", &wire.Tick{})...)
	}
	return out
}

// executorInfo is an executor of 100 blocks of 4 tokens.
func executorInfo() wire.ExecutorInfo {
	return wire.ExecutorInfo{
		Device: "test", Model: "m", Fingerprint: "f", VocabSize: 1 << 16, MaxModelLen: 1 << 20,
		BlockTokens: 4, NumBlocks: 100, MaxPassRows: 4096, CanPause: true,
	}
}

func (w *world) executor(name PeerID, epoch uint64, info wire.ExecutorInfo) []Envelope {
	return w.step(name, &wire.Hello{Role: wire.RoleExecutor, Name: string(name), Epoch: epoch, Executor: &info})
}

// tokens makes n tokens; prompts of one stem begin alike.
func tokens(stem, n int) []engine.TokenID {
	out := make([]engine.TokenID, n)
	for i := range out {
		out[i] = engine.TokenID(stem*1000+i) % (1 << 16)
	}
	return out
}

func (w *world) submit(from PeerID, m *wire.Submit) []Envelope {
	if m.Model == "" {
		m.Model = "m"
	}
	return w.step(from, m)
}

// answer makes an executor answer a Run, each item with the token 7.
func answer(run *wire.Run, took time.Duration) *wire.Done {
	d := &wire.Done{Pass: run.Pass, Took: took}
	for _, item := range run.Items {
		d.Items = append(d.Items, wire.ItemResult{Job: item.Job, Answer: &engine.Answer{Token: 7}})
	}
	return d
}

// runs picks the Runs out of what was sent, results the Results.
func runs(out []Envelope) (r []*wire.Run) { return pick[*wire.Run](out) }

func results(out []Envelope) (r []*wire.Result) { return pick[*wire.Result](out) }

func pick[M wire.Message](out []Envelope) (picked []M) {
	for _, e := range out {
		if m, ok := e.Msg.(M); ok {
			picked = append(picked, m)
		}
	}
	return picked
}
