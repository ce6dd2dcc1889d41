package scheduler

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// manyModels is an executor of many models that a script puts together.
type manyModels struct {
	wire.ExecutorInfo
	loading *wire.Load // that it was told last
}

// poolCommand reads one of
//
//	executor gpu pieces=N each=MB memory=MB rate=MB nests aside   (what the commands below add models to)
//	model gpu L tokens|tensors pieces=FROM-TO work=MB unit=D base=D step=D items=N keep=always|idle idle=D rows=N fails=WHY
//	hello gpu many epoch=N resident=FROM-TO
//	submit web F model=D frames=N grad stream=S promised
//	loaded gpu [count=N] [fails=WHY]
//	load web L | unload web L
func (s *script) poolCommand(peer PeerID, words []string, o opts) (wire.Message, bool) {
	e := s.many[peer]
	switch words[0] {
	case "executor":
		s.many[peer] = newMany(o)
	case "model":
		e.Models = append(e.Models, modelOf(words[2], o))
	case "loaded":
		m := &wire.Loaded{Serial: e.loading.Serial, Count: o.num("count", len(e.loading.Weights)), Took: time.Second}
		if why, ok := o["fails"]; ok {
			m.Count = o.num("count", 0)
			m.Err = engine.Errorf(engine.CodeUnavailable, "%s", why)
		}
		return m, true
	case "load", "unload":
		s.serial++
		return &wire.SetModel{Serial: s.serial, Model: words[2], Unload: words[0] == "unload"}, true
	default:
		return nil, false
	}
	return nil, true
}

func newMany(o opts) *manyModels {
	_, nests := o["nests"]
	_, aside := o["aside"]
	e := &manyModels{ExecutorInfo: wire.ExecutorInfo{
		Device: "test", CanPause: true, Nests: nests, Aside: aside,
		Memory: uint64(o.num("memory", 0)) * 1e6, LoadRate: float64(o.num("rate", 0)) * 1e6,
	}}
	for range o.num("pieces", 0) {
		e.Weights = append(e.Weights, wire.Weight{Bytes: uint64(o.num("each", 100)) * 1e6})
	}
	return e
}

func modelOf(name string, o opts) wire.ModelInfo {
	m := wire.ModelInfo{
		Name: name, Fingerprint: name, Work: uint64(o.num("work", 0)) * 1e6, Step: o.dur("step"), Idle: o.dur("idle"), Reason: o["fails"],
		Cost: wire.Cost{Base: o.dur("base"), Unit: o.dur("unit")},
		Keep: map[string]wire.Keep{"always": wire.KeepAlways, "idle": wire.KeepIdle}[o["keep"]],
	}
	from, to := o.span("pieces")
	for p := from; p <= to; p++ {
		m.Weights = append(m.Weights, uint32(p))
	}
	if _, ok := o["tensors"]; ok {
		m.Tensors = &wire.TensorLimits{MaxPassItems: o.num("items", 1), Backward: 1}
	} else {
		m.Tokens = &wire.TokenLimits{VocabSize: 1 << 16, MaxModelLen: 1 << 20, BlockTokens: 10, NumBlocks: o.num("blocks", 100), MaxPassRows: o.num("rows", 4096)}
	}
	return m
}

// span is a range of positions; of none from is greater than to.
func (o opts) span(key string) (from, to int) {
	first, last, ok := strings.Cut(o[key], "-")
	if !ok {
		last = first
	}
	from, err := strconv.Atoi(first)
	if err != nil {
		return 0, -1
	}
	to, _ = strconv.Atoi(last)
	return from, to
}

// helloMany is the Hello of an executor of many models; a heartbeat if it is not told what to say.
func (s *script) helloMany(peer PeerID, o opts) wire.Message {
	m := &wire.Hello{Role: wire.RoleExecutor, Name: string(peer), Epoch: uint64(o.num("epoch", 1))}
	if _, ok := o["many"]; !ok {
		return m
	}
	info := s.many[peer].ExecutorInfo
	info.Weights = append([]wire.Weight(nil), info.Weights...)
	from, to := o.span("resident")
	for i := range info.Weights {
		info.Weights[i].Resident = i >= from && i <= to
	}
	m.Executor = &info
	return m
}

// tensors is a Submit of frames, or nil if the command is none.
func (s *script) tensors(id engine.JobID, o opts) *wire.Submit {
	if _, ok := o["frames"]; !ok {
		return nil
	}
	w := &engine.Tensors{Inputs: []engine.Ref{{Name: "x", Blob: fmt.Sprint("blob-", id)}}, Frames: float64(o.num("frames", 1))}
	if _, ok := o["grad"]; ok {
		w.Grad = &engine.Grad{Inputs: []string{"x"}}
	}
	return &wire.Submit{Job: engine.Job{ID: id, Work: w}}
}

// describeModels tells how models are, but for the one that all executors of one model have.
func describeModels(m *wire.Welcome) (text string) {
	for _, s := range m.Served {
		if s.Name == "m" {
			continue
		}
		text += fmt.Sprintf(", %s %s", s.Name, s.State)
		if s.Reason != "" {
			text += fmt.Sprintf(" (%s)", s.Reason)
		}
	}
	return text
}

func describePieces(ids []uint32) string {
	var blocks []wire.BlockID
	for _, id := range ids {
		blocks = append(blocks, wire.BlockID(id))
	}
	return strings.Replace(describeBlocks(blocks), "blocks", "pieces", 1)
}

// describeWork tells what a pass computes for a job of tensors.
func describeWork(id engine.JobID, t *wire.TensorItem) string {
	if t.Grad != nil {
		return fmt.Sprintf("job %d, %v frames with a gradient", uint64(id), t.Frames)
	}
	return fmt.Sprintf("job %d, %v frames", uint64(id), t.Frames)
}
