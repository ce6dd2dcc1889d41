package scheduler

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/transcripttest"
	"github.com/prefillonly/prefillonly/kvcache"
)

// TestTranscripts plays testdata/*.txt. Lines that begin with "> " are told to the Core, those below
// them are what it said; all others are prose. See script.command for what can be told.
func TestTranscripts(t *testing.T) { transcripttest.Run(t, play) }

// play returns a transcript with what the Core says now.
func play(t *testing.T, file, text string) string {
	s := &script{t: t, cfg: DefaultConfig(), names: map[string]engine.JobID{}, infos: map[PeerID]llm{}, layers: map[PeerID]int{}, many: map[PeerID]*manyModels{}, nested: map[PeerID]*wire.Run{}, lowest: map[PeerID][]*wire.Run{},
		runs: map[wire.PassID]*wire.Run{}, passes: map[PeerID]*wire.Run{}}
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		command, isCommand := strings.CutPrefix(line, "> ")
		switch {
		case isCommand:
			s.where = fmt.Sprintf("%s:%d", file, n)
			out.WriteString(line + "\n" + s.tell(strings.Fields(command)))
		case !strings.HasPrefix(line, "  "):
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// script is the state of a transcript: a Core, and its peers as far as the commands need them.
type script struct {
	t      *testing.T
	where  string
	cfg    Config
	core   *Core
	now    time.Duration
	names  map[string]engine.JobID
	runs   map[wire.PassID]*wire.Run
	passes map[PeerID]*wire.Run // the one each executor was last told to run or resume
	infos  map[PeerID]llm
	layers map[PeerID]int
	many   map[PeerID]*manyModels
	nested map[PeerID]*wire.Run   // in the pass of each executor, not answered yet
	lowest map[PeerID][]*wire.Run // of lowest jobs, that each executor was told to run and has not answered
	serial uint64                 // of the last SetModel
}

// tell gives the Core what a command says, at its time ("3s" before the command), and returns the
// answer, indented.
func (s *script) tell(words []string) string {
	if d, err := time.ParseDuration(words[0]); err == nil {
		s.now, words = d, words[1:]
	}
	from, m := s.command(words)
	if m == nil {
		return "" // it says nothing to the Core
	}
	if s.core == nil {
		var err error
		if s.core, err = NewCore(s.cfg, 1000); err != nil {
			s.t.Fatalf("%s: %v", s.where, err)
		}
	}
	var b strings.Builder
	for _, e := range s.core.Step(s.now, from, m) {
		switch m := e.Msg.(type) {
		case *wire.Run:
			s.runs[m.Pass] = m
			switch {
			case m.Nested:
				s.nested[e.To] = m
			case m.Lowest:
				s.lowest[e.To] = append(s.lowest[e.To], m)
			default:
				s.passes[e.To] = m
			}
		case *wire.Abort:
			s.lowest[e.To] = slices.DeleteFunc(s.lowest[e.To], func(run *wire.Run) bool { return run.Pass == m.Pass })
		case *wire.Load:
			s.many[e.To].loading = m
		case *wire.Resume:
			s.passes[e.To] = s.runs[m.Pass]
		}
		if _, ok := e.Msg.(*wire.Welcome); ok && words[0] != "hello" {
			continue
		}
		fmt.Fprintf(&b, "  %s: %s\n", e.To, s.named(describeMessage(e.Msg)))
	}
	return b.String()
}

// command reads one of
//
//	set policy=P fairness=N routing=R pack=N paused=N eviction=E maxjobs=N fullkv   (before all others)
//	hello web | hello cpu executor epoch=N block=N blocks=N host=N rows=N limit=N token=D load=D layers=N
//	submit web A tokens=N stem=N max=N user=U priority=N deadline=D stop=ID salt=S waited=D logprobs lowest open generated=N
//	next web A generated=N tokens=N last   (of an open job: so many tokens are generated, the last of them not by a pass)
//	cancel web A
//	done cpu [token=ID] [fails] [full] [took=D]   (of the pass nested in another, if there is one)
//	done cpu lowest ...   (of the first pass of lowest jobs)
//	paused cpu [layer=N] | lost cpu | tick
//
// or what poolCommand says, where tokens of equal stems begin alike, up to fork=N if that is given.
func (s *script) command(words []string) (PeerID, wire.Message) {
	o := options(words[1:])
	switch words[0] {
	case "set":
		s.set(o)
		return "", nil
	case "tick":
		return "", &wire.Tick{}
	}
	if len(words) < 2 {
		s.t.Fatalf("%s: %q needs a peer", s.where, words[0])
	}
	peer := PeerID(words[1])
	if m, ok := s.poolCommand(peer, words, o); ok {
		return peer, m
	}
	switch words[0] {
	case "hello":
		return peer, s.hello(peer, o)
	case "submit":
		return peer, s.submit(words[2], o)
	case "next":
		_, last := o["last"]
		return peer, &wire.Next{Job: s.names[words[2]], Generated: o.num("generated", 1), Tokens: tokens(99, o.num("tokens", 0)), Open: !last}
	case "cancel":
		return peer, &wire.Cancel{Job: s.names[words[2]]}
	case "paused":
		return peer, &wire.Paused{Pass: s.passes[peer].Pass, Share: s.share(peer, o)}
	case "lost":
		return peer, &wire.Lost{}
	case "done":
		return peer, s.done(peer, o)
	}
	s.t.Fatalf("%s: no command %q", s.where, words[0])
	return "", nil
}

func (s *script) set(o opts) {
	if p, ok := o["policy"]; ok {
		s.cfg.Policy = p
	}
	if r, ok := o["routing"]; ok {
		s.cfg.Routing = r
	}
	if e, ok := o["eviction"]; ok {
		s.cfg.Eviction = kvcache.Eviction(e)
	}
	s.cfg.Fairness = float64(o.num("fairness", int(s.cfg.Fairness)))
	s.cfg.MaxPassItems = o.num("pack", s.cfg.MaxPassItems)
	s.cfg.MaxPaused = o.num("paused", s.cfg.MaxPaused)
	s.cfg.MaxQueuedJobs = o.num("maxjobs", s.cfg.MaxQueuedJobs)
	_, s.cfg.FullKV = o["fullkv"]
}

func (s *script) hello(peer PeerID, o opts) wire.Message {
	if s.many[peer] != nil {
		return s.helloMany(peer, o)
	}
	if _, ok := o["executor"]; !ok {
		return &wire.Hello{Role: wire.RoleFrontend, Name: string(peer), Epoch: uint64(o.num("epoch", 1))}
	}
	info, known := s.infos[peer]
	if !known {
		info = executorInfo()
		info.BlockTokens = o.num("block", 10)
		info.NumBlocks = o.num("blocks", 100)
		info.HostBlocks = o.num("host", 0)
		info.MaxPassRows = o.num("rows", 4096)
		info.MaxModelLen = o.num("limit", 1<<20)
		info.CostToken, info.CostLoad = o.dur("token"), o.dur("load")
		s.infos[peer], s.layers[peer] = info, o.num("layers", 0)
	}
	return &wire.Hello{Role: wire.RoleExecutor, Name: string(peer), Epoch: uint64(o.num("epoch", 1)), Executor: info.info()}
}

func (s *script) submit(name string, o opts) wire.Message {
	id, known := s.names[name]
	if !known {
		id = engine.JobID(len(s.names) + 1)
		s.names[name] = id
	}
	m := &submission{
		Job: id, Model: "m", Tokens: tokens(o.num("stem", int(id)), o.num("tokens", 10)), MaxTokens: o.num("max", 1),
		User: o["user"], Salt: o["salt"], Priority: o.num("priority", 0), Deadline: o.dur("deadline"), Waited: o.dur("waited"),
	}
	for i := o.num("fork", len(m.Tokens)); i < len(m.Tokens); i++ {
		m.Tokens[i] = engine.TokenID(30000 + 100*int(id) + i)
	}
	if stop := o.num("stop", -1); stop >= 0 {
		m.StopTokens = []engine.TokenID{engine.TokenID(stop)}
	}
	_, m.Ask.PromptLogprobs = o["logprobs"]
	_, m.Open = o["open"]
	m.Generated = o.num("generated", 0)
	full := m.message()
	if t := s.tensors(id, o); t != nil {
		full.Work = t.Work
	}
	if model, ok := o["model"]; ok {
		full.Model = model
	}
	full.Stream = o["stream"]
	_, full.Promised = o["promised"]
	if _, ok := o["lowest"]; ok {
		full.Priority = engine.Lowest
	}
	return full
}

// share is of a pass that has done so many layers.
func (s *script) share(peer PeerID, o opts) float64 {
	if layers := s.layers[peer]; layers > 0 {
		return float64(o.num("layer", 1)) / float64(layers)
	}
	return 0
}

func (s *script) done(peer PeerID, o opts) wire.Message {
	run := s.passes[peer]
	if inner := s.nested[peer]; inner != nil {
		run = inner
		delete(s.nested, peer)
	}
	if _, ok := o["lowest"]; ok {
		run, s.lowest[peer] = s.lowest[peer][0], s.lowest[peer][1:]
	}
	d := &wire.Done{Pass: run.Pass, Took: o.dur("took")}
	if _, ok := o["fails"]; ok {
		d.Err = engine.Errorf(engine.CodeInternal, "the pass failed")
		return d
	}
	if _, ok := o["full"]; ok {
		d.Err = engine.Errorf(engine.CodeOverloaded, "the pass does not fit")
		return d
	}
	for i, it := range parts(run) {
		if it.TokenItem == nil {
			d.Items = append(d.Items, wire.ItemResult{Job: run.Items[i].Job, Output: &engine.TensorOutput{}})
			continue
		}
		r := answered(it.Job, &engine.Answer{Token: engine.TokenID(o.num("token", 7))})
		if it.Ask.PromptLogprobs {
			r.Output.(*engine.TokenOutput).Prompt = unknownScores(it.TokenItem)
		}
		d.Items = append(d.Items, r)
	}
	return d
}

// named puts the jobs' names in place of their numbers.
func (s *script) named(text string) string {
	for name, id := range s.names {
		text = strings.ReplaceAll(text, fmt.Sprintf("job %d,", uint64(id)), name+",")
		text = strings.ReplaceAll(text, fmt.Sprintf("job %d ", uint64(id)), name+" ")
	}
	return text
}

// opts are the key=value words of a command; a word alone is a key with no value.
type opts map[string]string

func options(words []string) opts {
	o := opts{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		o[key] = value
	}
	return o
}

func (o opts) num(key string, fallback int) int {
	if n, err := strconv.Atoi(o[key]); err == nil {
		return n
	}
	return fallback
}

func (o opts) dur(key string) time.Duration {
	d, _ := time.ParseDuration(o[key])
	return d
}
