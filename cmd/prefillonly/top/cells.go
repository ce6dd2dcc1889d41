package top

import (
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// cleanText is text of others without what would move a terminal's cursor or set its state.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// textWidth is how many columns a text takes.
func textWidth(s string) int { return uniseg.StringWidth(s) }

// textHead is the beginning of a text that fits so many columns.
func textHead(s string, columns int) string {
	end, used := 0, 0
	for rest, state := s, -1; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+width > columns {
			break
		}
		end, used = end+len(cluster), used+width
	}
	return s[:end]
}

// padText makes a text fill its column, flush left where the width is negative. One that is too long ends in a mark.
func padText(s string, width int) string {
	space := abs(width) - textWidth(s)
	if space < 0 {
		s = textHead(s, abs(width)-1) + "~"
		space = abs(width) - textWidth(s)
	}
	if width < 0 {
		return s + strings.Repeat(" ", space)
	}
	return strings.Repeat(" ", space) + s
}

// cutLine drops what of a line is beyond the columns.
func cutLine(l line, columns int) line {
	for i, s := range l {
		if w := textWidth(s.text); w > columns {
			l[i].text = textHead(s.text, columns)
			return l[:i+1]
		} else {
			columns -= w
		}
	}
	return l
}

// wrap breaks a text at spaces into parts of so many columns.
func wrap(s string, columns int) (parts []string) {
	for _, word := range strings.Fields(s) {
		if n := len(parts); n > 0 && textWidth(parts[n-1])+1+textWidth(word) <= columns {
			parts[n-1] += " " + word
		} else {
			parts = append(parts, word)
		}
	}
	return parts
}

// escapes are how looks are told to a terminal.
var escapes = map[look]string{heading: "\x1b[1m", good: "\x1b[32m", bad: "\x1b[31m", faint: "\x1b[2m"}

// formatSpans is a line as bytes; without colour, only its text.
func (l line) formatSpans(colour bool) string {
	var b strings.Builder
	for _, s := range l {
		if colour && s.look != plain {
			b.WriteString(escapes[s.look] + s.text + "\x1b[0m")
		} else {
			b.WriteString(s.text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}
