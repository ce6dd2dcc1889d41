package streams

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/transcripttest"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/methods"
)

// TestTranscripts plays testdata/*.txt. Lines that begin with "> " are told to the Core, those below them are what it asks for; all others
// are prose. See script.event for what can be told.
func TestTranscripts(t *testing.T) { transcripttest.Run(t, play) }

// play returns a transcript with what the Core asks for now.
func play(t *testing.T, file, text string) string {
	s := &script{inferences: map[int]Infer{}}
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		command, isCommand := strings.CutPrefix(line, "> ")
		if isCommand {
			said, err := s.tell(strings.Fields(command))
			if err != nil {
				t.Fatalf("%s:%d: %v", file, n, err)
			}
			out.WriteString(line + "\n" + said)
		} else if !strings.HasPrefix(line, "  ") {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// script is the state of a transcript.
type script struct {
	core       *Core
	now        time.Duration
	inferences map[int]Infer
}

// tell gives the Core what a command says, at its time ("3s" before the command), and returns what it asks for, indented.
func (s *script) tell(words []string) (string, error) {
	if d, err := time.ParseDuration(words[0]); err == nil {
		s.now, words = d, words[1:]
	}
	if words[0] == "stream" {
		return "", s.begin(words[1:])
	}
	event, err := s.isEvent(words)
	if err != nil {
		return "", err
	}
	actions, err := s.core.Step(s.now, event)
	if err != nil {
		return "  no: " + err.Error() + "\n", nil
	}
	var out strings.Builder
	for _, a := range actions {
		if l, ok := a.(Infer); ok {
			s.inferences[l.ID] = l
		}
		out.WriteString("  " + describe(a) + "\n")
	}
	if s.core.Full() {
		out.WriteString("  full\n")
	}
	return out.String(), nil
}

// begin makes the Core: method=dds:frames=2 deadline=1s patience=5s most=2 next=7 number=30 time=3s rate=10.
func (s *script) begin(words []string) error {
	c := Config{New: func() method.Server { return &method.OneStream{How: method.Plain{}, Blank: true} }, Time: -1}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		d, _ := time.ParseDuration(value)
		n, _ := strconv.Atoi(value)
		switch name {
		case "method":
			m, err := methods.New(value, methods.Learned{})
			if err != nil {
				return err
			}
			c.New = func() method.Server { _, server := m.New(); return server }
		case "deadline":
			c.Deadline = d
		case "patience":
			c.Patience = d
		case "most":
			c.Most = n
		case "next":
			c.Next = method.Segment(n)
		case "number":
			c.Number = uint64(n)
		case "time":
			c.Time = d
		case "rate":
			c.Rate = float64(n)
		default:
			return fmt.Errorf("no stream has %s", word)
		}
	}
	s.core = New(c)
	return nil
}

// isEvent is what a command says:
//
//	begun | ended | tick
//	came A 3 of 4: 0@1s 2@1.2s          frames 0 and 2 of segment 3, which has 4, with their times
//	missed A 3 of 4 [@1s] [why...]
//	given 3 of 2 [final]
//	inferred 1 [why...]                   the network found what is in all frames of Infer 1, or saw none
//	inferred 1 but 2 why...               but for frame 2
func (s *script) isEvent(words []string) (Event, error) {
	rest := func(i int) string { return strings.Join(words[min(i, len(words)):], " ") }
	switch words[0] {
	case "begun":
		return Begun{}, nil
	case "ended":
		return Ended{}, nil
	case "tick":
		return Tick{}, nil
	case "inferred":
		id, _ := strconv.Atoi(words[1])
		but, why := -1, rest(2)
		if len(words) > 2 && words[2] == "but" {
			but, _ = strconv.Atoi(words[3])
			why = rest(4)
		}
		return answer(s.inferences[id], func(frame int) string {
			if but < 0 || frame == but {
				return why
			}
			return ""
		}), nil
	case "came", "missed", "given":
	default:
		return nil, errors.New("nothing is told by " + words[0])
	}
	var stream method.Stream
	if words[0] != "given" {
		if words[1] == "B" {
			stream = method.B
		}
		words = append(words[:1:1], words[2:]...)
	}
	n, _ := strconv.Atoi(words[1])
	of, _ := strconv.Atoi(strings.TrimSuffix(words[3], ":"))
	segment := method.Segment(n)
	switch words[0] {
	case "came":
		e := Came{Segment: segment, Stream: stream, Of: of}
		for _, word := range words[4:] {
			frame, at, _ := strings.Cut(word, "@")
			f, _ := strconv.Atoi(frame)
			d, err := time.ParseDuration(at)
			if err != nil {
				return nil, err
			}
			e.Frames, e.Times = append(e.Frames, f), append(e.Times, d)
		}
		return e, nil
	case "missed":
		e := Missed{Segment: segment, Stream: stream, Of: of, Why: rest(4)}
		if at, ok := strings.CutPrefix(e.Why, "@"); ok {
			at, e.Why, _ = strings.Cut(at, " ")
			e.Time, _ = time.ParseDuration(at)
		}
		return e, nil
	}
	r := method.Results{Segment: segment, Frames: make([]videoext.Findings, of), Final: rest(4) == "final"}
	for i := range r.Frames {
		r.Frames[i] = contents(segment, i)
	}
	return Given{r}, nil
}

// contents are what is in a frame: one thing, whose class names the frame, and one that is unsure.
func contents(s method.Segment, frame int) videoext.Findings {
	return videoext.Findings{
		Detections: []videoext.Detection{{Region: videoext.Region{X1: 0.1, Y1: 0.1}, Class: int(s)*100 + frame, Score: 0.9}},
		Proposals:  []videoext.Proposal{{Region: videoext.Region{X0: 0.5, Y0: 0.5, X1: 0.6, Y1: 0.6}, Objectness: 0.9}},
	}
}

// answer is what the network says, but of frames for which there is a reason why not.
func answer(l Infer, why func(frame int) string) Inferred {
	e := Inferred{ID: l.ID}
	for _, frame := range l.Frames {
		e.Findings, e.Why = append(e.Findings, contents(l.Segment, frame)), append(e.Why, why(frame))
	}
	return e
}

func describe(a Action) string {
	switch a := a.(type) {
	case Welcome:
		return fmt.Sprintf("welcome, from segment %d on", a.Next)
	case Infer:
		return fmt.Sprintf("infer %d: segment %d, stream %v, frames %v", a.ID, a.Segment, a.Stream, a.Frames)
	case Tell:
		regions := 0
		if w, ok := a.Content.(method.Wanted); ok {
			for _, r := range w.Regions {
				regions += len(r)
			}
		}
		return fmt.Sprintf("tell the camera of segment %d: %d regions are wanted", a.Segment, regions)
	case Done:
		return fmt.Sprintf("tell the camera that segment %d is done", a.Segment)
	case Free:
		return fmt.Sprintf("free segment %d", a.Segment)
	case Wake:
		return fmt.Sprintf("wake at %v", a.At)
	case Finished:
		return "finished"
	case Deliver:
		var list []string
		for _, r := range a.Results {
			text := fmt.Sprintf("%d: %d/%d of %d at %v", r.Number, r.Segment, r.Frame, r.Of, r.Time)
			for _, d := range r.Findings.Detections {
				text += fmt.Sprintf(" has %d", d.Class)
			}
			if r.Discontinuity {
				text += ", behind a discontinuity"
			}
			if len(r.Regions) > 0 {
				text += fmt.Sprintf(", %d regions", len(r.Regions))
			}
			if r.Late {
				text += fmt.Sprintf(", late by %v", r.Latency)
			}
			if r.Why != "" {
				text += ", unseen: " + r.Why
			}
			if !r.Final {
				text += ", not final"
			}
			list = append(list, text)
		}
		return "deliver " + strings.Join(list, "; ")
	}
	return fmt.Sprintf("%T", a)
}
