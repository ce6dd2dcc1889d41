// Package scores keeps the log-probabilities of prompts' positions by blocks of tokens, so that a prompt which begins as
// another one did is not asked for them again. They depend on the model and on the tokens up to their own alone.
package scores

import (
	"container/list"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
)

// Cache keeps blocks up to a number of bytes, those used last.
type Cache struct {
	limit, bytes int64
	blocks       map[key]*list.Element // of *entry
	recent       *list.List            // used last first
	awaited      map[key][]*Reader     // by the first block that is not known to them
}

// key is a block of a model: the hash stands for all tokens up to the block's last one.
type key struct {
	model string
	hash  kvcache.Hash
}

type entry struct {
	key
	*Block
}

// Block is the scores of a block's tokens, which nobody changes. The first block of a prompt has none of its first token.
type Block struct {
	top    int // how many of the likeliest each has at most
	scores []engine.PromptScore
}

// bytes is about what the block takes.
func (b *Block) bytes() int64 {
	n := int64(128 + 40*len(b.scores))
	for _, s := range b.scores {
		n += 8 * int64(cap(s.Top))
	}
	return n
}

// New makes a Cache of so many bytes.
func New(limit int64) *Cache {
	c := &Cache{limit: limit, awaited: map[key][]*Reader{}}
	c.Clear()
	return c
}

// Clear forgets everything.
func (c *Cache) Clear() {
	c.bytes, c.blocks, c.recent = 0, map[key]*list.Element{}, list.New()
}

// Add keeps scores of a chain's blocks of so many tokens: those of the prompt's positions from one on, which is 1 or a
// block's first. Blocks that are known with as many of the likeliest stay. It returns the readers that await one of the
// blocks, and awaited it with no more of the likeliest, in no order that matters; they go on awaiting it.
func (c *Cache) Add(model string, chain []kvcache.Hash, blockTokens, from, top int, scores []engine.PromptScore) (served []*Reader) {
	for i := from / blockTokens; i < len(chain); i++ {
		first, end := max(i*blockTokens, 1)-from, (i+1)*blockTokens-from
		if end > len(scores) {
			break
		}
		k := key{model, chain[i]}
		c.add(k, &Block{top, slices.Clone(scores[first:end])})
		for _, r := range c.awaited[k] {
			if r.top <= top {
				served = append(served, r)
			}
		}
	}
	return served
}

func (c *Cache) add(k key, b *Block) {
	if old := c.blocks[k]; old != nil {
		if old.Value.(*entry).top >= b.top {
			return
		}
		c.remove(old)
	}
	c.blocks[k] = c.recent.PushFront(&entry{k, b})
	c.bytes += b.bytes()
	for c.bytes > c.limit {
		c.remove(c.recent.Back())
	}
}

func (c *Cache) remove(e *list.Element) {
	x := c.recent.Remove(e).(*entry)
	delete(c.blocks, x.key)
	c.bytes -= x.bytes()
}

// Join is the scores of blocks, with so many of the likeliest, and others behind them.
func Join(blocks []*Block, top int, rest []engine.PromptScore) []engine.PromptScore {
	if len(blocks) == 0 {
		return rest
	}
	n := len(rest)
	for _, b := range blocks {
		n += len(b.scores)
	}
	all := make([]engine.PromptScore, 0, n)
	for _, b := range blocks {
		for _, s := range b.scores {
			s.Top = s.Top[:min(top, len(s.Top))]
			all = append(all, s)
		}
	}
	return append(all, rest...)
}
