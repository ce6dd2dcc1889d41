package executors

import (
	"container/list"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
)

// ScoreCache keeps the log-probabilities of prompts' positions by blocks of tokens, so that a prompt which begins as another
// one did is not asked for them again. They depend on the model and on the tokens up to their own alone. It keeps blocks up to
// a number of bytes, those used last.
type ScoreCache struct {
	limit, bytes int64
	blocks       map[scoreKey]*list.Element  // of *entry
	recent       *list.List                  // used last first
	awaited      map[scoreKey][]*ScoreReader // by the first block that is not known to them
}

// scoreKey is a block of a model: the hash stands for all tokens up to the block's last one.
type scoreKey struct {
	model string
	hash  kvcache.Hash
}

type scoreEntry struct {
	scoreKey
	*ScoreBlock
}

// ScoreBlock is the scores of a block's tokens, which nobody changes. The first block of a prompt has none of its first token.
type ScoreBlock struct {
	top    int // how many of the likeliest each has at most
	scores []engine.PromptScore
}

// byteSize is about what the block takes.
func (b *ScoreBlock) byteSize() int64 {
	n := int64(128 + 40*len(b.scores))
	for _, s := range b.scores {
		n += 8 * int64(cap(s.Top))
	}
	return n
}

// NewScoreCache makes a Cache of so many bytes.
func NewScoreCache(limit int64) *ScoreCache {
	c := &ScoreCache{limit: limit, awaited: map[scoreKey][]*ScoreReader{}}
	c.ClearScores()
	return c
}

// ClearScores forgets everything.
func (c *ScoreCache) ClearScores() {
	c.bytes, c.blocks, c.recent = 0, map[scoreKey]*list.Element{}, list.New()
}

// AddScores keeps scores of a chain's blocks of so many tokens: those of the prompt's positions from one on, which is 1 or a
// block's first. Blocks that are known with as many of the likeliest stay. It returns the readers that await one of the
// blocks, and awaited it with no more of the likeliest, in no order that matters; they go on awaiting it.
func (c *ScoreCache) AddScores(model string, chain []kvcache.Hash, blockTokens, from, top int, scores []engine.PromptScore) (served []*ScoreReader) {
	for i := from / blockTokens; i < len(chain); i++ {
		first, end := max(i*blockTokens, 1)-from, (i+1)*blockTokens-from
		if end > len(scores) {
			break
		}
		k := scoreKey{model, chain[i]}
		c.addBlock(k, &ScoreBlock{top, slices.Clone(scores[first:end])})
		for _, r := range c.awaited[k] {
			if r.top <= top {
				served = append(served, r)
			}
		}
	}
	return served
}

func (c *ScoreCache) addBlock(k scoreKey, b *ScoreBlock) {
	if old := c.blocks[k]; old != nil {
		if old.Value.(*scoreEntry).top >= b.top {
			return
		}
		c.removeBlock(old)
	}
	c.blocks[k] = c.recent.PushFront(&scoreEntry{k, b})
	c.bytes += b.byteSize()
	for c.bytes > c.limit {
		c.removeBlock(c.recent.Back())
	}
}

func (c *ScoreCache) removeBlock(e *list.Element) {
	x := c.recent.Remove(e).(*scoreEntry)
	delete(c.blocks, x.scoreKey)
	c.bytes -= x.byteSize()
}

// JoinScores is the scores of blocks, with so many of the likeliest, and others behind them.
func JoinScores(blocks []*ScoreBlock, top int, rest []engine.PromptScore) []engine.PromptScore {
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
