package telemetry

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap/zapcore"
)

// escaped writes lines in which no character commands a terminal or turns the order of what is read: such are written as JSON has them.
type escaped struct{ zapcore.WriteSyncer }

func (e escaped) Write(line []byte) (int, error) {
	if _, err := e.WriteSyncer.Write(escapeControls(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// escapeControls is text without control characters, but for the ends of lines and tabs.
func escapeControls(text []byte) []byte {
	var out []byte // nil as long as text is as it is to be
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		whole := r != utf8.RuneError || size > 1
		switch {
		case whole && (r == '\n' || r == '\t' || !isControlRune(r)):
			if out != nil {
				out = append(out, text[i:i+size]...)
			}
		default:
			if out == nil {
				out = append(make([]byte, 0, len(text)+16), text[:i]...)
			}
			out = fmt.Appendf(out, "\\u%04x", r)
		}
		i += size
	}
	if out == nil {
		return text
	}
	return out
}

// isControlRune says whether a character is a control character of C0 or C1, ends a line, or sets a direction of writing.
func isControlRune(r rune) bool {
	return r >= 0x7f && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) || r < ' '
}
