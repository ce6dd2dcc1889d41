// Package ctc reads what networks trained by connectionist temporal classification say of a line or a sound: at each step a symbol
// of an alphabet or a blank, of which equal neighbours are one.
// It is apart because pictures and sound have it in common.
package ctc

import (
	"fmt"
	"strings"
)

// Alphabet are the symbols of a network's last axis.
type Alphabet struct {
	Symbols []string // the blank's is not used
	Blank   int
}

// Decode is the text of the likeliest symbol at each step, and the mean of the values of those that are kept, 0 if none is. There are as
// many values as steps.
func (a *Alphabet) Decode(best []int64, values []float32) (text string, score float64, err error) {
	var b strings.Builder
	kept, before := 0, int64(-1)
	for i, at := range best {
		same := at == before
		before = at
		switch {
		case at < 0 || at >= int64(len(a.Symbols)):
			return "", 0, fmt.Errorf("the network recognizes symbol %d, and its alphabet has %d (0 to %d): give the network the alphabet that it was trained on", at, len(a.Symbols), len(a.Symbols)-1)
		case same || int(at) == a.Blank:
			continue
		}
		b.WriteString(a.Symbols[at])
		score += float64(values[i])
		kept++
	}
	if kept > 0 {
		score /= float64(kept)
	}
	return b.String(), score, nil
}
