package scheduler

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// describe tells what the Core sends, a line a message, in words.
func describe(out []Envelope) string {
	var b strings.Builder
	for _, e := range out {
		fmt.Fprintf(&b, "%s: %s\n", e.To, describeMessage(e.Msg))
	}
	return b.String()
}

func describeMessage(m wire.Message) string {
	switch m := m.(type) {
	case *wire.Welcome:
		text := fmt.Sprintf("welcome to epoch %d", m.Epoch)
		serving, waiting, running := 0, 0, 0
		for _, s := range m.Served {
			serving += s.Executors
		}
		for _, s := range m.Stats {
			waiting, running = waiting+s.Waiting, running+s.Running
		}
		for _, of := range []struct {
			n    int
			what string
		}{{serving, "serving"}, {waiting, "waiting"}, {running, "running"}} {
			if of.n > 0 {
				text += fmt.Sprintf(", %d %s", of.n, of.what)
			}
		}
		return text + describeModels(m)
	case *wire.Run:
		var items []string
		for i, it := range parts(m) {
			if it.TokenItem == nil {
				items = append(items, describeWork(it.Job, m.Items[i].Work.(*wire.TensorItem)))
				continue
			}
			item := fmt.Sprintf("job %d, %d of its %d tokens cached, in %s", uint64(it.Job), it.Cached, it.Len(), describeBlocks(it.Blocks))
			if it.Draw > 0 {
				item += fmt.Sprintf(", drawing token %d", it.Draw)
			}
			items = append(items, item)
		}
		of := ""
		if m.Model != "m" {
			of = " of " + m.Model
		}
		if m.Nested {
			of += " inside the running one"
		}
		if m.Lowest {
			of += " beside all others"
		}
		return fmt.Sprintf("run pass %d%s: %s%s%s", m.Pass, of, describeCopies("save", m.Saves), describeCopies("load", m.Loads), strings.Join(items, "; "))
	case *wire.Pause:
		return fmt.Sprintf("pause pass %d", m.Pass)
	case *wire.Resume:
		return fmt.Sprintf("resume pass %d", m.Pass)
	case *wire.Abort:
		return fmt.Sprintf("abort pass %d", m.Pass)
	case *wire.Result:
		return describeResult(m)
	case *wire.Load:
		return fmt.Sprintf("load %s of %s", describePieces(m.Weights), m.Model)
	case *wire.Drop:
		return "drop " + describePieces(m.Weights)
	case *wire.ModelSet:
		if m.Err != nil {
			return fmt.Sprintf("wish %d fails as %s: %s", m.Serial, m.Err.Code, m.Err.Message)
		}
		return fmt.Sprintf("wish %d has come true", m.Serial)
	}
	return fmt.Sprintf("%T", m)
}

// describeBlocks lists blocks, runs of ascending ones as ranges.
func describeBlocks(ids []wire.BlockID) string {
	if len(ids) == 0 {
		return "no block"
	}
	var parts []string
	for i := 0; i < len(ids); {
		end := i
		for end+1 < len(ids) && ids[end+1] == ids[end]+1 {
			end++
		}
		part := fmt.Sprint(ids[i])
		if end > i {
			part = fmt.Sprintf("%d-%d", ids[i], ids[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	return "blocks " + strings.Join(parts, ", ")
}

func describeResult(r *wire.Result) string {
	if r.Err != nil {
		text := fmt.Sprintf("job %d fails as %s: %s", uint64(r.Job), r.Err.Code, r.Err.Message)
		if r.Err.RetryAfter > 0 {
			text += fmt.Sprintf(" (come back in %v)", r.Err.RetryAfter)
		}
		return text
	}
	text, out := fmt.Sprintf("job %d has no token", uint64(r.Job)), output(r)
	if _, ok := r.Output.(*engine.TensorOutput); ok {
		return fmt.Sprintf("job %d has its tensors (queued %v, running %v)", uint64(r.Job), r.Timing.Queued, r.Timing.Running)
	}
	if out.Answer != nil {
		text = fmt.Sprintf("job %d has token %d, id %d", uint64(r.Job), out.Index, out.Answer.Token)
	}
	if len(out.Prompt) > 0 {
		text += fmt.Sprintf(", %d prompt scores", len(out.Prompt))
	}
	if r.Finish != 0 {
		text += fmt.Sprintf(", finished by %s", r.Finish)
	}
	queued := fmt.Sprint(r.Timing.Queued)
	if r.Timing.Loading > 0 {
		queued += fmt.Sprintf(", of which for weights %v", r.Timing.Loading)
	}
	return text + fmt.Sprintf(" (%d tokens cached, queued %s, running %v)", out.Cached, queued, r.Timing.Running)
}

func describeCopies(verb string, copies []wire.Copy) string {
	var text strings.Builder
	for _, c := range copies {
		fmt.Fprintf(&text, "%s block %d, page %d in host memory; ", verb, c.Device, c.Host)
	}
	return text.String()
}
