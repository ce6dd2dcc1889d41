package detokenize

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine"
)

// cutByBytes is the oracle of stop strings: it reads text byte by byte and stops at the first byte
// that completes a stop; of several that it completes, the longest counts.
func cutByBytes(text string, stops []string) (cut string, stopped bool) {
	for end := 1; end <= len(text); end++ {
		at := -1
		for _, stop := range stops {
			if strings.HasSuffix(text[:end], stop) && (at < 0 || end-len(stop) < at) {
				at = end - len(stop)
			}
		}
		if at >= 0 {
			return text[:at], true
		}
	}
	return text, false
}

// pieces cuts text into tokens of the given sizes, over and over.
func pieces(text string, sizes []byte) []string {
	var out []string
	for i := 0; text != ""; i++ {
		n := 1
		if len(sizes) > 0 {
			n = 1 + int(sizes[i%len(sizes)])%4
		}
		n = min(n, len(text))
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

// pieceTokenizer's tokens are the pieces of one text, so tokens end anywhere in it.
type pieceTokenizer struct {
	byteTokenizer
	pieces []string
}

func (p pieceTokenizer) Decode(ids []engine.TokenID, _ bool) (string, error) {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(p.pieces[id])
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD"), nil
}

// FuzzStopStrings generates a text in pieces, and holds what Text keeps of it, whole and as a
// stream, to the oracle.
func FuzzStopStrings(f *testing.F) {
	f.Add("Yes sis sir!", "sir", "", []byte{0})
	f.Add("aababc", "abc", "bab", []byte{1, 2})
	f.Add("日本語です。", "語で", "。", []byte{0})
	f.Add("x😀y😀z", "😀z", "y", []byte{2, 0, 3})
	f.Add("abcd", "bc", "abcd", []byte{3})
	f.Add("aaaa", "aa", "aaa", []byte{1})
	f.Fuzz(func(t *testing.T, text, stopA, stopB string, sizes []byte) {
		if !utf8.ValidString(text) || !utf8.ValidString(stopA) || !utf8.ValidString(stopB) || strings.Contains(text, "\uFFFD") || text == "" || len(text) > 200 {
			return
		}
		var stops []string
		for _, s := range []string{stopA, stopB} {
			if s != "" {
				stops = append(stops, s)
			}
		}
		want, stopped := cutByBytes(text, stops)
		got, streamed, ended := generate(pieces(text, sizes), stops)
		if got != want || streamed != want || ended != stopped {
			t.Fatalf("stops %q of %q: got %q, streamed %q (stopped: %v), want %q", stops, pieces(text, sizes), got, streamed, ended, want)
		}
	})
}

// generate adds tokens and returns their text, the stream's, and whether a stop string ended it.
func generate(tokens, stops []string) (text, streamed string, stopped bool) {
	got := NewText(pieceTokenizer{pieces: tokens}, false, nil)
	for i := 0; i < len(tokens) && !stopped; i++ {
		old := got.Len()
		got.Add(engine.TokenID(i))
		if i+1 == len(tokens) {
			got.End()
		}
		stopped = got.Cut(stops, old, false) != ""
		streamed += got.Take(stops, stopped || i+1 == len(tokens))
	}
	return string(got.bytes), streamed, stopped
}

func TestDecoderContext(t *testing.T) {
	smile := byteIDs("😀")
	for _, c := range []struct {
		name   string
		prompt []engine.TokenID
		ids    []engine.TokenID
		want   []string
	}{
		{"whole characters", []engine.TokenID{'a'}, []engine.TokenID{'b', tokenSmile}, []string{"b", "😀"}},
		{"split character", nil, smile, []string{"", "", "", "😀"}},
		{"prompt ends inside a character", append([]engine.TokenID{'a'}, smile[:2]...), smile[2:], []string{"", "😀"}},
		{"broken bytes", nil, []engine.TokenID{0xff, 'a'}, []string{"", "\uFFFDa"}},
	} {
		d := newDecoder(byteTokenizer{}, true, c.prompt)
		for i, id := range c.ids {
			if got := d.push(id); got != c.want[i] {
				t.Errorf("%s: token %d gives %q, want %q", c.name, i, got, c.want[i])
			}
		}
	}
	d := newDecoder(byteTokenizer{}, true, nil)
	got := ""
	for range 3 * maxHeld {
		got += d.push(0xff)
	}
	if got == "" || len(d.ids) < maxHeld {
		t.Error("bytes that never end a character are held for ever")
	}
}
