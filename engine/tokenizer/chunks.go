package tokenizer

import (
	"strings"
	"sync"

	"github.com/prefillonly/prefillonly/engine"
)

const (
	minCachedText   = 2048     // bytes; a shorter text is encoded word by word
	chunkCacheBytes = 64 << 20 // memory for chunks of long texts and their ids
	wordCacheBytes  = 16 << 20 // the same for words
	maxWord         = 64       // bytes of a word that is remembered
	chunkOverhead   = 160      // bytes of bookkeeping of one entry, estimated
)

// chunkCache remembers the ids of chunks of texts. With long chunks a text that begins (or goes on)
// like an earlier one is encoded only where it differs; with words as chunks a text that is new in its
// whole is put together from words that were seen. It holds two generations: when the younger one
// reaches half of the memory, it becomes the older, and what was not used since is dropped.
type chunkCache struct {
	splitter splitter
	words    bool // chunks are as short as is safe
	limit    int  // bytes of one generation

	mu         sync.RWMutex
	young, old map[chunk][]engine.TokenID // guarded by mu
	size       int                        // bytes of young; guarded by mu
}

// chunk is a stretch of text. Whether it begins the text matters for SentencePiece alone.
type chunk struct {
	salt  string // of those who may know that it was seen
	text  string
	first bool
}

func newChunkCache(s splitter, bytes int) *chunkCache {
	return &chunkCache{splitter: s, limit: bytes / 2, young: map[chunk][]engine.TokenID{}}
}

func newWordCache(s splitter, bytes int) *chunkCache {
	c := newChunkCache(s, bytes)
	c.words = true
	return c
}

// firstChunkLen returns the length of the first chunk of text.
func (c *chunkCache) firstChunkLen(text string) int {
	if c.words {
		return c.splitter.wordLen(text)
	}
	return c.splitter.chunkLen(text)
}

// isWorthCaching reports whether a chunk at the end of its text, or before it, is likely to be seen again. A
// long last chunk ends where its text does, so it is not.
func (c *chunkCache) isWorthCaching(text string, last bool) bool {
	if c.words {
		return len(text) <= maxWord
	}
	return !last
}

// encodeText appends the ids of text, asking bare for the chunks that are not remembered. It ends at the
// first that bare fails to encode.
func (c *chunkCache) encodeText(ids []engine.TokenID, salt, text string, bare func(string) ([]engine.TokenID, error)) ([]engine.TokenID, error) {
	for first := true; len(text) > 0; first = false {
		n := c.firstChunkLen(text)
		key := chunk{salt, text[:n], first && c.splitter.sentencePiece}
		known, ok := c.getChunk(key)
		if !ok {
			piece := key.text
			if c.splitter.sentencePiece && !first {
				piece = piece[1:]
			}
			var err error
			if known, err = bare(piece); err != nil {
				return nil, err
			}
			if c.isWorthCaching(key.text, n == len(text)) {
				c.putChunk(key, known)
			}
		}
		ids = append(ids, known...)
		text = text[n:]
	}
	return ids, nil
}

func (c *chunkCache) getChunk(key chunk) ([]engine.TokenID, bool) {
	c.mu.RLock()
	ids, ok := c.young[key]
	aged, isOld := c.old[key]
	c.mu.RUnlock()
	if !ok && isOld {
		c.putChunk(key, aged)
		return aged, true
	}
	return ids, ok
}

func (c *chunkCache) putChunk(key chunk, ids []engine.TokenID) {
	key.text = strings.Clone(key.text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.young[key]; ok {
		return
	}
	c.size += len(key.salt) + len(key.text) + 4*len(ids) + chunkOverhead
	if c.size > c.limit {
		c.old, c.young = c.young, map[chunk][]engine.TokenID{}
		c.size = len(key.salt) + len(key.text) + 4*len(ids) + chunkOverhead
	}
	c.young[key] = ids
}
