package scoring

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// counting is a tokenizer that notes what it encodes, and how often at a time; the text "bad" it cannot encode.
type counting struct {
	text.Tokenizer
	mu             sync.Mutex
	texts          map[string]int // guarded by mu
	busy, together int            // guarded by mu
}

func (c *counting) Encode(ctx context.Context, salt, text string, addSpecial bool) ([]engine.TokenID, error) {
	c.mu.Lock()
	c.texts[text]++
	c.busy++
	c.together = max(c.together, c.busy)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.busy--
		c.mu.Unlock()
	}()
	time.Sleep(100 * time.Microsecond)
	if text == "bad" {
		return nil, fmt.Errorf("this text is bad")
	}
	return c.Tokenizer.Encode(ctx, salt, text, addSpecial)
}

// TestAhead asks for vectors of texts that are tokenized side by side, some of them twice.
func TestAhead(t *testing.T) {
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean, Prompts: map[string]string{"query": "q:"}, Default: "query"})
	w.widen(100)
	w.processors = processors.New(2)
	count := &counting{Tokenizer: w.subject.Text.Tokenizer, texts: map[string]int{}}
	w.subject.Text.Tokenizer = count
	var texts, want []string
	for i := range 300 {
		texts = append(texts, fmt.Sprintf("%060d", i%200))
		want = append(want, "q:"+texts[i])
	}
	body := func(texts []string) string {
		raw, err := json.Marshal(map[string]any{"input": texts, "add_special_tokens": false})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if _, err := w.ask("/v1/embeddings", body(texts)); err != nil {
		t.Fatal(err)
	}
	if got := w.prompts(); !slices.Equal(got, want) {
		t.Errorf("the prompts are %q", got)
	}
	if n := slices.Max(slices.Collect(maps.Values(count.texts))); len(count.texts) != 200 || n != 1 {
		t.Errorf("%d texts were tokenized, one of them %d times; want 200, each once", len(count.texts), n)
	}
	if count.together < 2 || count.together > 3 {
		t.Errorf("%d texts at a time, want more than one and no more than the caller and 2 helpers", count.together)
	}

	w.subject.Prompts = nil
	texts[7] = "bad"
	w.check("/v1/embeddings", body(texts), "this text is bad")
	if n := len(count.texts); n > 300 {
		t.Errorf("%d texts were tokenized, want few behind the bad one", n-200)
	}
	for range w.processors.Slots() { // others have all
		if _, ok := w.processors.Try(processors.Stage{Takes: 100 * time.Millisecond}); !ok {
			t.Fatal("a processor is still busy")
		}
	}
	w.check("/v1/embeddings", body(texts[8:]), `"embedding"`)
	if _, busy := w.processors.Load(); busy != w.processors.Slots() {
		t.Errorf("%d processors are busy, want the %d of others", busy, w.processors.Slots())
	}
}
