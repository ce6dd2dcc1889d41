package forms

import "strings"

// asciiClasses are the classes that some dialects of regular expressions have for all of Unicode, some for ASCII alone.
var asciiClasses = map[byte]string{'d': `[0-9]`, 'w': `[0-9A-Za-z_]`, 's': `[\t\n\x0B\f\r ]`, 'D': `[^0-9]`, 'W': `[^0-9A-Za-z_]`, 'S': `[^\t\n\x0B\f\r ]`}

// narrowRegex is a regular expression, in the syntax of Rust's regex, whose texts match both where \d, \w and \s are of ASCII
// (JavaScript, OpenAI's and XGrammar's) and where they are of Unicode (Python, Rust): each class is the smaller of its two readings.
// Those are ASCII's, and Unicode's of what is left over, which a class with ^ turns around.
func narrowRegex(regex string) string {
	var b strings.Builder
	var inverted []bool // what each class that is open does to the classes in it
	for i := 0; i < len(regex); i++ {
		outer := len(inverted) > 0 && inverted[len(inverted)-1]
		switch c := regex[i]; {
		case c == '\\' && i+1 < len(regex):
			i++
			ascii, found := asciiClasses[regex[i]]
			if left := regex[i] < 'a'; found && left == outer {
				b.WriteString(ascii)
			} else {
				b.WriteString(regex[i-1 : i+1])
			}
			continue
		case c == '[':
			open := "["
			if strings.HasPrefix(regex[i+1:], "^") {
				open = "[^"
			}
			inverted = append(inverted, outer != (open == "[^"))
			if strings.HasPrefix(regex[i+len(open):], "]") { // where it is a character of the class
				open += "]"
			}
			b.WriteString(open)
			i += len(open) - 1
			continue
		case c == ']' && len(inverted) > 0:
			inverted = inverted[:len(inverted)-1]
		}
		b.WriteByte(regex[i])
	}
	return b.String()
}
