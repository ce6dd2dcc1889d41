package detokenize

import (
	"bytes"
	"strings"
)

// findStop finds where a text first ends by one of stops, reading it byte by byte: the match that
// is complete first, and of those the longest. No match may end at or before from. It returns
// where the match starts, and which it is; -1 if there is none.
func findStop(text []byte, from int, stops []string) (at int, which string) {
	at, end := -1, len(text)+1
	for _, stop := range stops {
		start := max(0, from-len(stop)+1)
		i := bytes.Index(text[start:], []byte(stop))
		if i < 0 {
			continue
		}
		i += start
		if e := i + len(stop); e < end || e == end && i < at {
			at, end, which = i, e, stop
		}
	}
	return at, which
}

// heldBack is how many last bytes of text might be the beginning of a stop.
func heldBack(text []byte, stops []string) int {
	held := 0
	for _, stop := range stops {
		for n := min(len(stop)-1, len(text)); n > held; n-- {
			if strings.HasPrefix(stop, string(text[len(text)-n:])) {
				held = n
				break
			}
		}
	}
	return held
}
