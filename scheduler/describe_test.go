package scheduler

import (
	"fmt"
	"strings"

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
		for _, of := range []struct {
			n    int
			what string
		}{{len(m.Executors), "serving"}, {m.Waiting, "waiting"}, {m.Running, "running"}} {
			if of.n > 0 {
				text += fmt.Sprintf(", %d %s", of.n, of.what)
			}
		}
		return text
	case *wire.Run:
		var items []string
		for _, it := range m.Items {
			item := fmt.Sprintf("job %d, %d of its %d tokens cached, in %s", uint64(it.Job), it.Cached, len(it.Tokens), describeBlocks(it.Blocks))
			if it.Draw > 0 {
				item += fmt.Sprintf(", drawing token %d", it.Draw)
			}
			items = append(items, item)
		}
		return fmt.Sprintf("run pass %d: %s%s%s", m.Pass, describeCopies("save", m.Saves), describeCopies("load", m.Loads), strings.Join(items, "; "))
	case *wire.Pause:
		return fmt.Sprintf("pause pass %d", m.Pass)
	case *wire.Resume:
		return fmt.Sprintf("resume pass %d", m.Pass)
	case *wire.Abort:
		return fmt.Sprintf("abort pass %d", m.Pass)
	case *wire.Result:
		return describeResult(m)
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
	text := fmt.Sprintf("job %d has no token", uint64(r.Job))
	if r.Answer != nil {
		text = fmt.Sprintf("job %d has token %d, id %d", uint64(r.Job), r.Index, r.Answer.Token)
	}
	if len(r.Prompt) > 0 {
		text += fmt.Sprintf(", %d prompt scores", len(r.Prompt))
	}
	if r.Finish != 0 {
		text += fmt.Sprintf(", finished by %s", r.Finish)
	}
	return text + fmt.Sprintf(" (%d tokens cached, queued %v, running %v)", r.Cached, r.Timing.Queued, r.Timing.Running)
}

func describeCopies(verb string, copies []wire.Copy) string {
	var text strings.Builder
	for _, c := range copies {
		fmt.Fprintf(&text, "%s block %d, page %d in host memory; ", verb, c.Device, c.Host)
	}
	return text.String()
}
