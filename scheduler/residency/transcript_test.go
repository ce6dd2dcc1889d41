package residency

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/internal/transcripttest"
)

// TestTranscripts plays testdata/*.txt. Lines that begin with "> " are told to a Memory, those below them are what it
// said; all others are prose. See script.tell for what can be told.
func TestTranscripts(t *testing.T) { transcripttest.Run(t, play) }

// play returns a transcript with what Memory says now.
func play(t *testing.T, file, text string) string {
	s := &script{t: t}
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		command, isCommand := strings.CutPrefix(line, "> ")
		switch {
		case isCommand:
			s.where = fmt.Sprintf("%s:%d", file, n)
			out.WriteString(line + "\n")
			if said := s.tell(strings.Fields(command)); said != "" {
				out.WriteString("  " + said + "\n")
			}
		case !strings.HasPrefix(line, "  "):
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// script is the state of a transcript.
type script struct {
	t       *testing.T
	where   string
	m       *Memory
	models  map[string]ModelID
	chunks  map[string]Chunk
	names   []string // of chunks
	order   []string // of demands
	demands map[string]Demand
}

// tell gives Memory what a command says, and returns the answer. It reads one of
//
//	memory N [cpu]                                     (before all others, and anew; bytes)
//	model NAME CHUNK=N... [area=N] [keep]              (at a byte a second)
//	frames NAME run=S n=N share=F idle=S [kept]        (the demand of a stream)
//	requests NAME service=S jobs=N waited=S next=S [kept] (the demand of requests)
//	idle NAME                                          (nothing waits any more)
//	next | loaded CHUNK | failed CHUNK                 (the channel)
//	begin NAME [area=N] | end NAME [area=N]            (passes)
//	remove NAME | unload NAME
func (s *script) tell(words []string) string {
	o := options{}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		o[key] = value
	}
	name := ""
	if len(words) > 1 {
		name = words[1]
	}
	switch words[0] {
	case "memory":
		n, _ := strconv.ParseInt(name, 10, 64)
		*s = script{t: s.t, where: s.where, m: NewMemory(n, o.has("cpu")), models: map[string]ModelID{}, chunks: map[string]Chunk{}, demands: map[string]Demand{}}
	case "model":
		return s.register(words[1:], o)
	case "frames":
		s.demand(name, Frames{Run: o.num("run"), Frames: int(o.num("n")), Share: o.num("share"), Idle: o.num("idle")}, o)
	case "requests":
		s.demand(name, Requests{Service: o.num("service"), Jobs: int(o.num("jobs")), Waited: o.num("waited"), Next: o.num("next")}, o)
	case "idle":
		delete(s.demands, name)
	case "next":
		return s.next()
	case "loaded":
		if !s.m.Loaded(s.chunks[name]) {
			return "drop " + name
		}
		return s.ready()
	case "failed":
		s.m.Failed(s.chunks[name])
	case "begin":
		evict, ok := s.m.Begin(s.models[name], int64(o.num("area")), s.all())
		if !ok {
			return "no room now"
		}
		return s.evict("begin", evict)
	case "end":
		s.m.End(s.models[name], int64(o.num("area")))
	case "remove":
		return s.evict("removed", s.m.Remove(s.models[name]))
	case "unload":
		return s.evict("unloaded", s.m.Unload(s.models[name]))
	default:
		s.t.Fatalf("%s: no command %q", s.where, words[0])
	}
	return ""
}

func (s *script) register(words []string, o options) string {
	spec := Spec{Area: int64(o.num("area")), Rate: 1, Keep: o.has("keep")}
	for _, w := range words[1:] {
		name, value, sized := strings.Cut(w, "=")
		if !sized || name == "area" {
			continue
		}
		if _, known := s.chunks[name]; !known {
			s.chunks[name] = Chunk(len(s.names))
			s.names = append(s.names, name)
		}
		n, _ := strconv.ParseInt(value, 10, 64)
		spec.Chunks = append(spec.Chunks, SizedChunk{s.chunks[name], n})
	}
	id := ModelID(len(s.models))
	s.models[words[0]] = id
	var large *TooLarge
	switch err := s.m.Register(id, spec); {
	case errors.As(err, &large):
		return fmt.Sprintf("too large: needs %d, of %d are %d kept for others", large.Needs, large.Capacity, large.Kept)
	case err != nil:
		s.t.Fatalf("%s: %v", s.where, err)
	}
	return ""
}

func (s *script) demand(name string, w Work, o options) {
	if _, known := s.demands[name]; !known {
		s.order = append(s.order, name)
	}
	s.demands[name] = Demand{Model: s.models[name], Work: w, Kept: o.has("kept"), Idle: o.has("idle")}
}

func (s *script) all() []Demand {
	var list []Demand
	for _, name := range s.order {
		if l, ok := s.demands[name]; ok {
			list = append(list, l)
		}
	}
	return list
}

func (s *script) next() string {
	a, ok := s.m.Next(s.all())
	if !ok {
		return "nothing" + s.waits()
	}
	said := fmt.Sprintf("load %s for %s", s.names[a.Load], s.model(a.Model))
	return s.evict(said, a.Evict)
}

// waits says for which model nothing is done.
func (s *script) waits() string {
	if id, ok := s.m.Target(); ok {
		return ", while " + s.model(id) + " waits for a pass to end"
	}
	return ""
}

func (s *script) model(id ModelID) string {
	for name, other := range s.models {
		if other == id {
			return name
		}
	}
	s.t.Fatalf("%s: no model %d", s.where, id)
	return ""
}

// evict puts what is evicted before what is said.
func (s *script) evict(said string, evict []Chunk) string {
	var names []string
	for _, c := range evict {
		names = append(names, s.names[c])
	}
	if len(names) > 0 {
		said = "evict " + strings.Join(names, ", ") + "; " + said
	}
	return said
}

// ready lists the models that are wholly resident.
func (s *script) ready() string {
	names := make([]string, 0, len(s.models))
	for id := range ModelID(len(s.models)) {
		if s.m.modelByID(id) != nil && s.m.Ready(id) {
			names = append(names, s.model(id))
		}
	}
	if len(names) == 0 {
		return "none is whole"
	}
	return "whole: " + strings.Join(names, ", ")
}

// options are the key=value words of a command; a word alone is a key with no value.
type options map[string]string

func (o options) num(key string) float64 {
	n, _ := strconv.ParseFloat(o[key], 64)
	return n
}

func (o options) has(key string) bool {
	_, ok := o[key]
	return ok
}
