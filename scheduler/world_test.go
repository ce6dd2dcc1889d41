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

// llm is an executor of one model that takes tokens.
type llm struct {
	Device, Model, Fingerprint                                              string
	VocabSize, MaxModelLen, BlockTokens, NumBlocks, HostBlocks, MaxPassRows int
	CopiesParts, CanPause                                                   bool
	CostBase, CostToken, CostLoad                                           time.Duration
	CostPair                                                                float64
}

// info is the executor as it registers.
func (x *llm) info() *wire.ExecutorInfo {
	return &wire.ExecutorInfo{Device: x.Device, CanPause: x.CanPause, Models: []wire.ModelInfo{{
		Name: x.Model, Fingerprint: x.Fingerprint,
		Cost: wire.Cost{Base: x.CostBase, Unit: x.CostToken, Pair: x.CostPair, Load: x.CostLoad},
		Tokens: &wire.TokenLimits{
			VocabSize: x.VocabSize, MaxModelLen: x.MaxModelLen, BlockTokens: x.BlockTokens, NumBlocks: x.NumBlocks,
			HostBlocks: x.HostBlocks, MaxPassRows: x.MaxPassRows, CopiesParts: x.CopiesParts, Hidden: hiddenSize,
		},
	}}}
}

// executorInfo is an executor of 100 blocks of 4 tokens.
func executorInfo() llm {
	return llm{
		Device: "test", Model: "m", Fingerprint: "f", VocabSize: 1 << 16, MaxModelLen: 1 << 20,
		BlockTokens: 4, NumBlocks: 100, MaxPassRows: 4096, CanPause: true,
	}
}

// hiddenSize is how many numbers a vector has.
const hiddenSize = 6

// submission is a Submit of tokens.
type submission struct {
	Job                engine.JobID
	Model, User, Salt  string
	Tokens, StopTokens []engine.TokenID
	Generated          int
	MaxTokens          int
	Open               bool
	Ask                engine.Ask
	Request            engine.JobID
	Priority           int
	Deadline, Waited   time.Duration
}

func (s *submission) message() *wire.Submit {
	return &wire.Submit{Job: engine.Job{
		ID: s.Job, Model: s.Model, User: s.User, Salt: s.Salt, Request: s.Request, Priority: s.Priority, Deadline: s.Deadline, Waited: s.Waited,
		Work: &engine.Tokens{IDs: s.Tokens, Generated: s.Generated, Max: s.MaxTokens, Open: s.Open, Stop: s.StopTokens, Ask: s.Ask},
	}}
}

// unknownScores are scores of the positions that a pass is asked for.
func unknownScores(it *wire.TokenItem) []engine.PromptScore {
	return make([]engine.PromptScore, it.Len()-min(max(it.Known, 1), it.Len()))
}

// scoresOf are the scores of all positions of a prompt but the first, each a number of the tokens up to there, with so many
// of the likeliest.
func scoresOf(prompt []engine.TokenID, top int) (list []engine.PromptScore) {
	sum := float32(prompt[0])
	for _, id := range prompt[1:] {
		sum = sum*3 + float32(id)
		list = append(list, engine.PromptScore{Logprob: -sum, Top: make([]engine.TokenLogprob, top)})
	}
	return list
}

// part is one job's part of a pass.
type part struct {
	Job engine.JobID
	*wire.TokenItem
}

// parts are what a pass computes.
func parts(run *wire.Run) (list []part) {
	for _, it := range run.Items {
		tokens, _ := it.Work.(*wire.TokenItem) // nil of tensors
		list = append(list, part{it.Job, tokens})
	}
	return list
}

// item is what a pass computes for one of its jobs, output what a Result says that was found.
func item(run *wire.Run, i int) *wire.TokenItem { return run.Items[i].Work.(*wire.TokenItem) }

func output(r *wire.Result) *engine.TokenOutput {
	if out, ok := r.Output.(*engine.TokenOutput); ok {
		return out
	}
	return &engine.TokenOutput{}
}

func answered(job engine.JobID, a *engine.Answer) wire.ItemResult {
	return wire.ItemResult{Job: job, Output: &engine.TokenOutput{Answer: a}}
}

func (w *world) executor(name PeerID, epoch uint64, info llm) []Envelope {
	return w.step(name, &wire.Hello{Role: wire.RoleExecutor, Name: string(name), Epoch: epoch, Executor: info.info()})
}

// tokens makes n tokens; prompts of one stem begin alike.
func tokens(stem, n int) []engine.TokenID {
	out := make([]engine.TokenID, n)
	for i := range out {
		out[i] = engine.TokenID(stem*1000+i) % (1 << 16)
	}
	return out
}

func (w *world) submit(from PeerID, m *submission) []Envelope {
	if m.Model == "" {
		m.Model = "m"
	}
	return w.step(from, m.message())
}

// answer makes an executor answer a Run, each item with the token 7.
func answer(run *wire.Run, took time.Duration) *wire.Done {
	d := &wire.Done{Pass: run.Pass, Took: took}
	for _, item := range parts(run) {
		d.Items = append(d.Items, answered(item.Job, &engine.Answer{Token: 7}))
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
