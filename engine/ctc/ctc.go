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

// Found is a symbol of an answer.
type Found struct {
	Symbol   int
	From, To int     // of the steps at which it is the likeliest
	Value    float32 // at the first of them
}

// Find is what the likeliest symbols at each step say. There are as many values as steps.
func (a *Alphabet) Find(best []int64, values []float32) (all []Found, err error) {
	before := int64(-1)
	for i, at := range best {
		same := at == before
		before = at
		switch {
		case at < 0 || at >= int64(len(a.Symbols)):
			return nil, fmt.Errorf("the network recognizes symbol %d, and its alphabet has %d (0 to %d): give the network the alphabet that it was trained on", at, len(a.Symbols), len(a.Symbols)-1)
		case int(at) == a.Blank:
		case same:
			all[len(all)-1].To = i + 1
		default:
			all = append(all, Found{Symbol: int(at), From: i, To: i + 1, Value: values[i]})
		}
	}
	return all, nil
}

// Decode is the text of what Find finds, and the mean of its values, 0 if there is none.
func (a *Alphabet) Decode(best []int64, values []float32) (text string, score float64, err error) {
	all, err := a.Find(best, values)
	var b strings.Builder
	for _, f := range all {
		b.WriteString(a.Symbols[f.Symbol])
		score += float64(f.Value)
	}
	return b.String(), score / float64(max(1, len(all))), err
}
