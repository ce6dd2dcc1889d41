// Package tokenizer turns text into token ids and back, and chat messages into prompts, exactly as
// transformers does with the same checkpoint.
//
// Both are done by a static library of Rust crates, in package native: tokenizers through
// github.com/daulet/tokenizers, and minijinja for chat templates. Without cgo Open refuses, and
// only the byte-level tokenizer of NewBytes works.
package tokenizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/tokenizer/native"
	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// model is what encodes and decodes: the native library, or bytes.
type model interface {
	// Encode fails when *cancelled becomes other than 0; it may be nil.
	Encode(text string, addSpecial bool, cancelled *atomic.Int32) ([]engine.TokenID, error)
	Decode(ids []engine.TokenID, skipSpecial bool) (string, error)
	Close()
}

// Tokenizer is the tokenizer of one checkpoint. All methods but Close are safe for concurrent use.
type Tokenizer struct {
	model    model
	tokens   []token // by id
	chat     *chat
	chunks   *chunkCache // of long texts; nil when texts of this tokenizer cannot be split safely
	words    *chunkCache // of short texts, and of chunks; nil as chunks is
	leading  []engine.TokenID
	trailing []engine.TokenID // special tokens that Encode puts before and after a text
	pair     text.Pair
	eos      []engine.TokenID
	widest   int // see BytesPerToken
	grammars grammars

	pairError error // why there is no pair
}

// maxTokenizer is the most bytes of a tokenizer.json; those of large vocabularies have 33 MB.
const maxTokenizer = 256 << 20

// Open reads the tokenizer of the checkpoint in dir: tokenizer.json is required;
// tokenizer_config.json, special_tokens_map.json, generation_config.json, config.json,
// chat_template.jinja and chat_template.json are used when they are there. Of a GGUF model, which dir names by its first file, all of that is made of
// its metadata.
func Open(dir string) (*Tokenizer, error) {
	path, text, files, err := readTokenizer(dir)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	m, parts, err := openModel(text)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	t, err := newTokenizer(m, parts, files)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	t.readPair(text)
	return t, nil
}

// readTokenizer reads a tokenizer.json, whose path it returns, and what is beside it.
func readTokenizer(dir string) (path string, text []byte, beside *files, err error) {
	if gguf.IsName(dir) {
		text, beside, err = readGGUF(dir)
		if err != nil {
			err = fmt.Errorf("%s: %w", dir, err)
		}
		return dir, text, beside, err
	}
	path = filepath.Join(dir, "tokenizer.json")
	text, err = regular.ReadFile(path, maxTokenizer)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("missing %s; convert a checkpoint without it by transformers' AutoTokenizer.save_pretrained", path)
	}
	if err == nil {
		beside, err = readFiles(dir)
	}
	return path, text, beside, err
}

// openModel makes a tokenizer of the library from the text of a tokenizer.json.
func openModel(text []byte) (model, *parts, error) {
	m, description, err := native.Open(text)
	if err != nil {
		return nil, nil, err
	}
	p := &parts{}
	if err := json.Unmarshal(description, p); err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, p, nil
}

func newTokenizer(m model, parts *parts, files *files) (*Tokenizer, error) {
	t := &Tokenizer{model: m, tokens: parts.vocabTokens(), chat: newChat(files)}
	if err := t.findSurroundings(); err != nil {
		return nil, err
	}
	if s := parts.newSplitter(); s != nil {
		t.chunks, t.words = newChunkCache(*s, chunkCacheBytes), newWordCache(*s, wordCacheBytes)
	}
	t.widest = t.findWidest(parts)
	byText := parts.specialIDs()
	t.eos = files.eosIDs
	if id, ok := byText[files.special["eos_token"]]; ok && !slices.Contains(t.eos, id) {
		t.eos = append(t.eos, id)
	}
	for _, id := range t.eos {
		if int(id) >= len(t.tokens) {
			return nil, fmt.Errorf("invalid end-of-text token %d: the vocabulary has %d tokens", id, len(t.tokens))
		}
	}
	return t, nil
}

// findSurroundings learns which special tokens the tokenizer puts around a text.
func (t *Tokenizer) findSurroundings() error {
	const probe = "probe \x00\x7f\u00e9\u4e2d\U0001F980\uFFFF"
	bare, err := t.model.Encode(probe, false, nil)
	if err != nil {
		return fmt.Errorf("cannot encode arbitrary text: %w", err)
	}
	full, err := t.model.Encode(probe, true, nil)
	if err != nil {
		return fmt.Errorf("cannot encode arbitrary text: %w", err)
	}
	for i := 0; i+len(bare) <= len(full); i++ {
		if slices.Equal(full[i:i+len(bare)], bare) {
			t.leading, t.trailing = slices.Clone(full[:i]), slices.Clone(full[i+len(bare):])
			return nil
		}
	}
	return errors.New("a post-processor that changes the tokens of the text is not supported")
}

// Close frees the native library's memory. No other call may be running or follow.
func (t *Tokenizer) Close() {
	t.closeGrammars()
	t.model.Close()
}

// Encode returns the ids of text; with addSpecial the tokenizer's own special tokens around it
// (such as <|begin_of_text|>). Special tokens spelt out in text become their ids. Invalid UTF-8 is
// read as U+FFFD. It fails when the tokenizer does (a regular expression that gives up on the text)
// and, of a long text, with ctx's error when ctx ends. Long texts of one salt are not recognised under
// another, so that the time it takes does not tell what others have sent; words are.
func (t *Tokenizer) Encode(ctx context.Context, salt, text string, addSpecial bool) ([]engine.TokenID, error) {
	e := encoding{t: t, ctx: ctx, salt: salt}
	if len(text) >= minWatched {
		e.cancelled = new(atomic.Int32)
		stop := context.AfterFunc(ctx, func() { e.cancelled.Store(1) })
		defer stop()
	}
	ids := make([]engine.TokenID, 0, len(text)/3+8)
	if addSpecial {
		ids = append(ids, t.leading...)
	}
	ids, err := e.appendText(ids, text)
	if err != nil {
		if ended := ctx.Err(); ended != nil && e.cancelled != nil {
			return nil, ended
		}
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if addSpecial {
		ids = append(ids, t.trailing...)
	}
	return ids, nil
}

// minWatched is the length in bytes of a text whose encoding takes long enough to be cancelled.
const minWatched = 16 << 10

// encoding is one Encode.
type encoding struct {
	t         *Tokenizer
	ctx       context.Context
	salt      string
	cancelled *atomic.Int32 // not 0: nobody waits for the ids; nil for a short text
}

func (e encoding) appendText(ids []engine.TokenID, text string) ([]engine.TokenID, error) {
	switch {
	case e.t.chunks == nil:
		more, err := e.encodeBare(text)
		return append(ids, more...), err
	case len(text) < minCachedText:
		return e.t.words.encodeText(ids, "", text, e.encodeBare)
	}
	return e.t.chunks.encodeText(ids, e.salt, text, e.encodeWords)
}

// encodeWords is bare by way of the words that are remembered. Others may have the processor before each chunk of a long text.
func (e encoding) encodeWords(text string) ([]engine.TokenID, error) {
	if e.cancelled != nil {
		if err := processors.Yield(e.ctx); err != nil {
			return nil, err
		}
	}
	return e.t.words.encodeText(make([]engine.TokenID, 0, len(text)/3+8), "", text, e.encodeBare)
}

// encodeBare encodes without special tokens around.
func (e encoding) encodeBare(text string) ([]engine.TokenID, error) {
	if e.cancelled != nil && e.cancelled.Load() != 0 {
		return nil, context.Canceled
	}
	return e.t.model.Encode(text, false, e.cancelled)
}

// Decode returns the text of ids, leaving special tokens out if skipSpecial. Bytes that are not
// UTF-8 become U+FFFD; ids outside the vocabulary become nothing. It fails when the checkpoint's
// decoder does.
func (t *Tokenizer) Decode(ids []engine.TokenID, skipSpecial bool) (string, error) {
	text, err := t.model.Decode(ids, skipSpecial)
	if err != nil {
		return "", fmt.Errorf("tokenizer: %w", err)
	}
	return text, nil
}

// VocabSize is one more than the largest id with a text. A model's matrices may have more rows.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// TokenText is the text of one token as it stands inside a longer text (a leading space is kept).
// Different ids can have the same text: parts of a character all read as U+FFFD. It is empty for
// an id outside the vocabulary.
func (t *Tokenizer) TokenText(id engine.TokenID) string {
	if int(id) >= len(t.tokens) {
		return ""
	}
	return decodeLossy(t.tokens[id].decodedBytes())
}

// TokenBytes is what one token adds to the bytes of a text; unlike TokenText it is exact for parts
// of a character.
func (t *Tokenizer) TokenBytes(id engine.TokenID) []byte {
	if int(id) >= len(t.tokens) {
		return nil
	}
	return t.tokens[id].decodedBytes()
}

// EOS are the tokens that end a generation: those of generation_config.json (or, without it,
// config.json) and the tokenizer's eos_token.
func (t *Tokenizer) EOS() []engine.TokenID { return slices.Clone(t.eos) }
