package speech

import (
	"math"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/ctc"
)

// Alphabet are the symbols of a network, and how they make words.
type Alphabet struct {
	ctc      ctc.Alphabet
	text     []string // of each symbol; empty: it has none
	begins   []bool   // a word begins behind a symbol, or with it
	hasWords bool     // words are told apart
}

// Names of symbols that stand for nothing and for an end of a word, the likeliest ones first.
var (
	blanks     = []string{"<blank>", "<blk>", "<pad>", "[PAD]", "<epsilon>", ""}
	delimiters = []string{"|", "<wb>", " ", wordMark}
)

// wordMark is what a piece of SentencePiece begins with that begins a word.
const wordMark = "▁"

// NewAlphabet reads symbols in the order of the network's: the blank by its name, or else the first; `|`, <wb>, a space and ▁ between words; and others in
// <> or [], which have no text.
func NewAlphabet(symbols []string) *Alphabet {
	a := &Alphabet{ctc: ctc.Alphabet{Symbols: symbols}, text: make([]string, len(symbols)), begins: make([]bool, len(symbols))}
	for _, name := range blanks {
		if at := slices.Index(symbols, name); at >= 0 {
			a.ctc.Blank = at
			break
		}
	}
	for i, s := range symbols {
		text, marked := strings.CutPrefix(s, wordMark)
		switch {
		case slices.Contains(delimiters, s):
			text, marked = "", true
		case len(s) > 2 && (s[0] == '<' && s[len(s)-1] == '>' || s[0] == '[' && s[len(s)-1] == ']'):
			text = ""
		}
		a.text[i], a.begins[i] = text, marked
		a.hasWords = a.hasWords || marked
	}
	return a
}

// Word is one that was heard; where words are not told apart it is a symbol.
type Word struct {
	Text       string
	Start, End float64 // seconds
	logs       float64 // of the probabilities of its symbols
	symbols    int
}

// Segment is a part of a sound between pauses.
type Segment struct {
	Text       string
	Start, End float64 // seconds
	LogProb    float64 // mean of the logarithms of symbols' probabilities; 0 where the network does not tell them
}

// Transcript is what was heard.
type Transcript struct {
	Text     string
	Seconds  float64
	Words    []Word
	Segments []Segment
}

// A segment ends at a pause, and is no longer than fits a subtitle.
const (
	pauseSeconds   = 0.7
	segmentSeconds = 8
)

// transcript makes words and segments of what was heard.
func (a *Alphabet) transcript(h *hearing) (*Transcript, error) {
	found, err := a.ctc.Find(h.best, h.values)
	if err != nil {
		return nil, engine.Errorf(engine.CodeUnavailable, "%v", err)
	}
	t := &Transcript{Seconds: h.seconds(), Words: a.words(h, found)}
	between := ""
	if a.hasWords {
		between = " "
	}
	var all []string
	for _, w := range t.Words {
		all = append(all, w.Text)
	}
	t.Text, t.Segments = strings.Join(all, between), segments(t.Words, between)
	return t, nil
}

func (a *Alphabet) words(h *hearing, found []ctc.Found) (words []Word) {
	open := false // the last word may go on
	for _, f := range found {
		open = open && !a.begins[f.Symbol]
		text := a.text[f.Symbol]
		if text == "" {
			continue
		}
		if !open {
			words = append(words, Word{Start: h.at[f.From]})
		}
		open = a.hasWords
		w := &words[len(words)-1]
		w.Text, w.End = w.Text+text, h.end(f.To-1)
		w.logs, w.symbols = w.logs+logProb(f.Value), w.symbols+1
	}
	return words
}

// logProb is the logarithm of a probability, which a network gives as it is or as its logarithm; of others it is 0.
func logProb(v float32) float64 {
	switch {
	case v <= 0 && v >= -100:
		return float64(v)
	case v > 0 && v <= 1:
		return math.Log(float64(v))
	}
	return 0
}

func segments(words []Word, between string) (all []Segment) {
	logs, symbols := 0.0, 0
	for i, w := range words {
		if i == 0 || w.Start-words[i-1].End >= pauseSeconds || w.End-all[len(all)-1].Start > segmentSeconds {
			all = append(all, Segment{Text: w.Text, Start: w.Start})
			logs, symbols = 0, 0
		} else {
			all[len(all)-1].Text += between + w.Text
		}
		s := &all[len(all)-1]
		logs, symbols = logs+w.logs, symbols+w.symbols
		s.End, s.LogProb = w.End, logs/float64(symbols)
	}
	return all
}
