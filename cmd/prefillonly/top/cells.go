package top

import (
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// clean is text of others without what would move a terminal's cursor or set its state.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// width1 is how many columns a text takes.
func width1(s string) int { return uniseg.StringWidth(s) }

// head is the beginning of a text that fits so many columns.
func head(s string, columns int) string {
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

// pad makes a text fill its column, flush left where the width is negative. One that is too long ends in a mark.
func pad(s string, width int) string {
	space := abs(width) - width1(s)
	if space < 0 {
		s = head(s, abs(width)-1) + "~"
		space = abs(width) - width1(s)
	}
	if width < 0 {
		return s + strings.Repeat(" ", space)
	}
	return strings.Repeat(" ", space) + s
}

// cut drops what of a line is beyond the columns.
func cut(l line, columns int) line {
	for i, s := range l {
		if w := width1(s.text); w > columns {
			l[i].text = head(s.text, columns)
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
		if n := len(parts); n > 0 && width1(parts[n-1])+1+width1(word) <= columns {
			parts[n-1] += " " + word
		} else {
			parts = append(parts, word)
		}
	}
	return parts
}

// escapes are how looks are told to a terminal.
var escapes = map[look]string{heading: "\x1b[1m", good: "\x1b[32m", bad: "\x1b[31m", faint: "\x1b[2m"}

// print is a line as bytes; without colour, only its text.
func (l line) print(colour bool) string {
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
