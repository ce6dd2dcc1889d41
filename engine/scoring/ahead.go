package scoring

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/prefillonly/prefillonly/engine"
)

// helpers are goroutines that calls may start beside their own to tokenize, all calls together: a call never waits for one.
type helpers chan struct{}

func newHelpers() helpers { return make(helpers, max(1, runtime.GOMAXPROCS(0)-1)) }

// startIfFree runs f in a goroutine of group unless as many are busy.
func (h helpers) startIfFree(group *sync.WaitGroup, f func()) {
	select {
	case h <- struct{}{}:
		group.Go(func() {
			f()
			<-h
		})
	default:
	}
}

// aheadBytes of texts are worth a helper: they take longer than to start it.
const aheadBytes = 4 << 10

// tokenizeAhead tokenizes texts side by side, so that tokens finds them known. It ends at the first that fails, of which tokens will say
// why.
func (c *Call) tokenizeAhead(ctx context.Context, prefix string, texts []string) {
	list, size := c.unknownTexts(prefix, texts)
	if size < 2*aheadBytes {
		return
	}
	found := make([][]engine.TokenID, len(list))
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < len(list); i = int(next.Add(1)) - 1 {
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
	for range min(len(list), size/aheadBytes, cap(c.s.helpers)+1) - 1 {
		c.s.helpers.startIfFree(&group, work)
	}
	work()
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
