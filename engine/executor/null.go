package executor

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Null is a Runner without models: of each that its info names, every token is equally likely, and a
// hash of the prompt's length and last token chooses one. It is for measuring everything but models.
type Null struct{ info wire.ExecutorInfo }

// NewNull makes a Null that calls itself info, whose models take tokens. Loading a piece of weights takes
// no time and no memory.
func NewNull(info wire.ExecutorInfo) *Null { return &Null{info: info} }

// Info implements Runner.
func (n *Null) Info() wire.ExecutorInfo {
	info := n.info
	info.Weights, info.Models = slices.Clone(info.Weights), slices.Clone(info.Models)
	return info
}

// Load implements Runner.
func (n *Null) Load(_ string, weight uint32) (done bool, err error) {
	n.info.Weights[weight].Resident = true
	return true, nil
}

// Drop implements Runner.
func (n *Null) Drop(weights []uint32) {
	for _, w := range weights {
		n.info.Weights[w].Resident = false
	}
}

// Begin implements Runner.
func (n *Null) Begin(run *wire.Run) (Pass, error) {
	i := slices.IndexFunc(n.info.Models, func(m wire.ModelInfo) bool { return m.Name == run.Model })
	if i < 0 || n.info.Models[i].Tokens == nil {
		return nil, fmt.Errorf("there is no model %q that takes tokens", run.Model)
	}
	m := &n.info.Models[i]
	if run.Nested && !n.info.Nests {
		return nil, fmt.Errorf("a pass of model %s cannot be nested", m.Name)
	}
	for at, w := range m.Weights {
		if !n.info.Weights[w].Resident {
			return nil, fmt.Errorf("model %s: piece %d of %d of its weights is not loaded", m.Name, at, len(m.Weights))
		}
	}
	for i := range run.Items {
		if err := checkTokens(&run.Items[i], m.Tokens); err != nil {
			return nil, err
		}
	}
	return &nullPass{limits: m.Tokens, run: run}, nil
}

// checkTokens refuses an item that is not within the limits.
func checkTokens(run *wire.RunItem, limits *wire.TokenLimits) error {
	item, ok := run.Work.(*wire.TokenItem)
	if !ok {
		return engine.Errorf(engine.CodeInternal, "job %v is %T and no tokens", run.Job, run.Work)
	}
	if item.Cached >= item.Len() || item.Len() > limits.MaxModelLen {
		return engine.Errorf(engine.CodeTooLong, "job %v has %d tokens, %d of them cached; the model takes up to %d and at least one that is not cached",
			run.Job, item.Len(), item.Cached, limits.MaxModelLen)
	}
	if !item.Brings() {
		return fmt.Errorf("job %v: of %d tokens, %d of them cached and %d generated, the first %d are left out, and bans look at %d",
			run.Job, item.Len(), item.Cached, item.Draw, item.From, item.Ask.Recalls())
	}
	if limits.VectorsOnly && item.Ask.Pool == engine.PoolNone {
		return engine.Errorf(engine.CodeBadTokens, "job %v asks for tokens, and the model gives vectors alone", run.Job)
	}
	if len(item.Blocks)*limits.BlockTokens < item.Cached-item.Part.Tokens || item.Part.Tokens > 0 && int(item.Part.Block) >= limits.NumBlocks {
		return fmt.Errorf("job %v: %d cached tokens in %d blocks of %d, %d of them in block %d of %d",
			run.Job, item.Cached, len(item.Blocks), limits.BlockTokens, item.Part.Tokens, item.Part.Block, limits.NumBlocks)
	}
	for i, id := range item.Tokens {
		if int(id) >= limits.VocabSize {
			return engine.Errorf(engine.CodeBadTokens, "job %v: token %d at position %d is outside the vocabulary of %d", run.Job, id, item.From+i, limits.VocabSize)
		}
	}
	for _, b := range item.Blocks {
		if int(b) >= limits.NumBlocks {
			return fmt.Errorf("job %v: block %d of %d", run.Job, b, limits.NumBlocks)
		}
	}
	return nil
}

// Close implements Runner.
func (n *Null) Close() {}

// nullPass has one step, which does nothing.
type nullPass struct {
	limits *wire.TokenLimits
	run    *wire.Run
	share  float64
}

func (p *nullPass) Step() (bool, error) { p.share = 1; return true, nil }
func (p *nullPass) Boundary() bool      { return true }
func (p *nullPass) Share() float64      { return p.share }
func (p *nullPass) Close()              {}

func (p *nullPass) Results() []wire.ItemResult {
	out := make([]wire.ItemResult, len(p.run.Items))
	for i := range out {
		item := p.run.Items[i].Work.(*wire.TokenItem)
		found := &engine.TokenOutput{Vector: p.hashVector(item)}
		if found.Vector == nil {
			found.Answer, found.Prompt = p.answerItem(item), p.promptScores(item)
		}
		out[i] = wire.ItemResult{Job: p.run.Items[i].Job, Output: found}
	}
	return out
}

// likelyTokens is the number of equally likely tokens, and nth the n-th of them.
func (p *nullPass) likelyTokens(ask *engine.Ask) (int, func(n int) engine.TokenID) {
	if !ask.Allowed.Empty() {
		return ask.Allowed.Len(), ask.Allowed.Nth
	}
	return p.limits.VocabSize, func(n int) engine.TokenID { return engine.TokenID(n) }
}

func (p *nullPass) answerItem(item *wire.TokenItem) *engine.Answer {
	n, nth := p.likelyTokens(&item.Ask)
	logprob := float32(-math.Log(float64(n)))
	a := &engine.Answer{Token: nth(int(hashOf(item) % uint64(n))), Logprob: logprob}
	for i := range min(item.Ask.Top, n) {
		a.Top = append(a.Top, engine.TokenLogprob{ID: nth(i), Logprob: logprob})
	}
	for _, id := range item.Ask.Labels {
		a.Labels = append(a.Labels, engine.TokenLogprob{ID: id, Logprob: logprob})
	}
	return a
}

// hashVector is numbers of the tokens' hash; nil if none is asked for.
func (p *nullPass) hashVector(item *wire.TokenItem) []float32 {
	if item.Ask.Pool == engine.PoolNone {
		return nil
	}
	n := p.limits.Hidden
	if item.Ask.Head {
		n = p.limits.Labels
	}
	if item.Ask.Pool == engine.PoolAll {
		n *= item.Len()
	}
	v, random := make([]float32, n), rand.New(rand.NewPCG(hashOf(item), 0))
	for i := range v {
		v[i] = random.Float32() - 0.5
	}
	return v
}

// hashOf is of what every item brings of its sequence, whatever of it is cached: its length and its last token.
func hashOf(item *wire.TokenItem) uint64 {
	h := fnv.New64a()
	var words [8]byte
	binary.LittleEndian.PutUint32(words[:], uint32(item.Len()))
	binary.LittleEndian.PutUint32(words[4:], item.Tokens[len(item.Tokens)-1])
	_, _ = h.Write(words[:])
	return h.Sum64()
}

func (p *nullPass) promptScores(item *wire.TokenItem) []engine.PromptScore {
	if !item.Ask.PromptLogprobs {
		return nil
	}
	scores := make([]engine.PromptScore, item.Len()-min(max(item.Known, 1), item.Len()))
	logprob := float32(-math.Log(float64(p.limits.VocabSize)))
	for i := range scores {
		scores[i].Logprob = logprob
		for id := range min(item.Ask.PromptTop, p.limits.VocabSize) {
			scores[i].Top = append(scores[i].Top, engine.TokenLogprob{ID: engine.TokenID(id), Logprob: logprob})
		}
	}
	return scores
}
