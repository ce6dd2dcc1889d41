package pipeline

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestPrefixToTheToken: what a prompt shares with one before is found to its last token, whatever the
// blocks (of 16 here), and gives the bits of a prompt that shares nothing.
func TestPrefixToTheToken(t *testing.T) {
	p := newPipeline(t)
	p.executor()
	p.startTiered()
	c := p.dial()
	defer c.conn.Close()
	ask := func(prompt, salt string) (choices string, cached int) {
		t.Helper()
		status, text, err := c.do(fmt.Sprintf(`{"prompt":%q,"cache_salt":%q,"add_special_tokens":false,"max_tokens":1,"temperature":0,"logprobs":5}`, prompt, salt))
		if err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %v: %s", status, err, text)
		}
		_, rest, _ := strings.Cut(text, `"choices":`)
		choices, rest, _ = strings.Cut(rest, `,"usage"`)
		_, rest, _ = strings.Cut(rest, `"cached_tokens":`)
		if _, err := fmt.Sscan(rest, &cached); err != nil {
			t.Fatalf("no cached_tokens in %s", text)
		}
		return choices, cached
	}
	profile := "thirty-nine characters, two whole block" // and 7 tokens
	ask(profile, "one")
	for i, want := range []int{39, 39, 39} {
		prompt := profile + strings.Repeat(string(rune('x'+i)), 3)
		warm, cached := ask(prompt, "one")
		cold, none := ask(prompt, fmt.Sprint("another ", i))
		if cached != want || none != 0 {
			t.Errorf("prompt %d: %d tokens cached, want %d; under another salt %d", i, cached, want, none)
		}
		if warm != cold {
			t.Errorf("prompt %d: cached %s, cold %s", i, warm, cold)
		}
	}
	if _, cached := ask(profile, "one"); cached != 38 {
		t.Errorf("the same prompt again has %d of 39 tokens cached, want all but the one that is asked about", cached)
	}
	if _, cached := ask(profile[:21]+"????", "one"); cached != 21 {
		t.Errorf("a prompt that shares 21 tokens has %d cached", cached)
	}
}
