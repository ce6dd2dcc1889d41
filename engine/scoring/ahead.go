package scoring

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/processors"
)

const (
	aheadBytes = 4 << 10               // of texts are worth a helper: they take longer than to start it
	aheadPace  = 200 * time.Nanosecond // about what a byte takes
)

// tokenizeAhead tokenizes texts, side by side while there are processors that nobody waits for, so that tokens finds them known. It ends at
// the first that fails, of which tokens will say why.
func (c *Call) tokenizeAhead(ctx context.Context, prefix string, texts []string) {
	list, size := c.unknownTexts(prefix, texts)
	if size < 2*aheadBytes {
		return
	}
	found := make([][]engine.TokenID, len(list))
	var next atomic.Int64
	work := func(ctx context.Context, ends func() bool) {
		for !ends() {
			i := int(next.Add(1)) - 1
			if i >= len(list) {
				return
			}
			var err error
			if err = c.checkText("", list[i]); err == nil {
				found[i], err = c.encodeText(ctx, "", list[i])
			}
			if err != nil {
				next.Store(int64(len(list)))
			}
		}
	}
	var group sync.WaitGroup
	pool := c.s.processors
	for range min(len(list), size/aheadBytes, pool.Slots()+1) - 1 {
		done, ok := pool.Try(processors.Stage{Kind: "texts", Takes: time.Duration(size) * aheadPace / 2})
		if !ok {
			break
		}
		group.Go(func() {
			defer done()
			work(processors.WithSeat(ctx), pool.Wanting)
		})
	}
	work(ctx, func() bool { return false })
	group.Wait()
	for i, ids := range found {
		if ids != nil {
			c.known[list[i]] = ids
		}
	}
}

// unknownTexts are those of the texts behind a prefix that were not tokenized yet, each once, and their length.
func (c *Call) unknownTexts(prefix string, texts []string) (list []string, size int) {
	seen := make(map[string]bool, len(texts))
	for _, text := range texts {
		text = prefix + text
		if _, ok := c.known[text]; !ok && !seen[text] {
			seen[text] = true
			list, size = append(list, text), size+len(text)
		}
	}
	return list, size
}
