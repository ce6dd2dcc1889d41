package forms

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// translateECMA is a pattern of a JSON schema, which ECMA-262 reads, in the syntax of Rust's regex: a text that matches it matches the
// pattern, too. Of classes that dialects read as ASCII's or as Unicode's it is the smaller one, as narrowed has it. An error says what of
// the pattern has no such translation, or is no ECMA-262.
func translateECMA(pattern string) (string, error) {
	if !utf8.ValidString(pattern) {
		return "", fmt.Errorf("invalid UTF-8")
	}
	e := &ecma{rest: pattern}
	var list []string
	for more := true; more; more = e.takePrefix("|") {
		if err := e.translateAlternative(); err != nil {
			return "", fmt.Errorf("%w, at byte %d of the pattern", err, len(pattern)-len(e.rest))
		}
		list = append(list, e.out.String())
		e.out.Reset()
	}
	if len(list) == 1 {
		return "^" + list[0] + "$", nil
	}
	return "^(?:" + strings.Join(list, "|") + ")$", nil
}

// anything is any text.
const anything = `[\x{0}-\x{10FFFF}]*`

// ecma translates a pattern. Its rest is not read yet.
type ecma struct {
	rest   string
	out    strings.Builder
	groups int // that lie around
}

// nextRune takes a rune.
func (e *ecma) nextRune() rune {
	r, n := utf8.DecodeRuneInString(e.rest)
	e.rest = e.rest[n:]
	return r
}

// takePrefix takes a prefix, if it is there.
func (e *ecma) takePrefix(prefix string) bool {
	rest, ok := strings.CutPrefix(e.rest, prefix)
	e.rest = rest
	return ok
}

// maxGroups is how many groups may lie in each other.
const maxGroups = 128

// maxInner bounds what stands between braces, and names.
const maxInner = 64

// upTo is what stands before a character that is not far, and what is behind that.
func upTo(text string, end byte) (inner, rest string, found bool) {
	i := strings.IndexByte(text[:min(len(text), maxInner)], end)
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
}

// translateAlternative translates one of the whole pattern, as one that is anchored at both ends.
func (e *ecma) translateAlternative() error {
	if !e.takePrefix("^") {
		e.out.WriteString(anything)
	}
	if err := e.translateTerms(); err != nil {
		return err
	}
	if !e.takePrefix("$") {
		e.out.WriteString(anything)
	}
	switch {
	case strings.HasPrefix(e.rest, ")"):
		return fmt.Errorf("unmatched )")
	case e.rest != "" && e.rest[0] != '|':
		return fmt.Errorf("$ is only supported at the end of an alternative")
	}
	return nil
}

// translateTerms translates what follows up to the end of an alternative, or $.
func (e *ecma) translateTerms() error {
	for e.rest != "" && !strings.ContainsRune("|)$", rune(e.rest[0])) {
		if err := e.translateTerm(); err != nil {
			return err
		}
		if err := e.translateQuantifier(); err != nil {
			return err
		}
	}
	return nil
}

// translateTerm translates one, without what repeats it.
func (e *ecma) translateTerm() error {
	switch c := e.nextRune(); c {
	case '^':
		return fmt.Errorf("^ is only supported at the beginning of an alternative outside groups")
	case '(':
		return e.translateGroup()
	case '[':
		return e.translateClass()
	case '.':
		e.out.WriteString(`[^\n\r\x{2028}\x{2029}]`)
	case '\\':
		escape, err := e.readEscape(false)
		e.out.WriteString(escape.regexText(false))
		return err
	case '*', '+', '?':
		return fmt.Errorf("nothing to repeat before %c", c)
	case '{':
		if body, _, found := upTo(e.rest, '}'); found && strings.Trim(body, "0123456789,") == "" {
			return fmt.Errorf("invalid quantifier {%s}: want {n}, {n,} or {n,m} after what is repeated", body)
		}
		e.out.WriteString(literalRune(c))
	default:
		e.out.WriteString(literalRune(c))
	}
	return nil
}

func (e *ecma) translateGroup() error {
	switch {
	case !strings.HasPrefix(e.rest, "?"), e.takePrefix("?:"):
	case strings.HasPrefix(e.rest, "?="), strings.HasPrefix(e.rest, "?!"), strings.HasPrefix(e.rest, "?<="), strings.HasPrefix(e.rest, "?<!"):
		return fmt.Errorf("look-around is not supported")
	case e.takePrefix("?<"):
		name, rest, found := upTo(e.rest, '>')
		if !found || !isName(name) {
			return fmt.Errorf("invalid group name in (?<%.20s", e.rest)
		}
		e.rest = rest
	default:
		return fmt.Errorf("unsupported group (%.3s: flags are not supported", e.rest)
	}
	if e.groups++; e.groups > maxGroups {
		return fmt.Errorf("groups are nested deeper than %d", maxGroups)
	}
	e.out.WriteString("(?:")
	for more := true; more; {
		if err := e.translateTerms(); err != nil {
			return err
		}
		if more = e.takePrefix("|"); more {
			e.out.WriteByte('|')
		}
	}
	switch {
	case strings.HasPrefix(e.rest, "$"):
		return fmt.Errorf("$ is only supported at the end of an alternative outside groups")
	case !e.takePrefix(")"):
		return fmt.Errorf("missing ) of a group")
	}
	e.groups--
	e.out.WriteByte(')')
	return nil
}

func isName(name string) bool {
	for i, c := range name {
		if letter := c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'; !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// translateQuantifier translates one, if it follows.
func (e *ecma) translateQuantifier() error {
	before := e.rest
	if !e.takePrefix("*") && !e.takePrefix("+") && !e.takePrefix("?") {
		body, rest, found := upTo(strings.TrimPrefix(e.rest, "{"), '}')
		low, high, _ := strings.Cut(body, ",")
		n, err := strconv.Atoi(low)
		if before == "" || before[0] != '{' || !found || err != nil || strings.Trim(low+high, "0123456789") != "" {
			return nil // none, or a brace that term reads
		}
		if m, err := strconv.Atoi(high); high != "" && (err != nil || m < n) {
			return fmt.Errorf("invalid quantifier {%s}: want the smaller number first", body)
		}
		e.rest = rest
	}
	e.out.WriteString(before[:len(before)-len(e.rest)])
	e.takePrefix("?") // a lazy one matches the same texts
	if e.rest != "" && strings.ContainsRune("*+?", rune(e.rest[0])) {
		return fmt.Errorf("nothing to repeat before %.1s", e.rest)
	}
	return nil
}

// atom is what an escape stands for: a character, or a class of them.
type atom struct {
	char  rune
	class string // as a member of a class; empty: char
	turn  string // the same of a class that begins with ^
}

func (a atom) regexText(inverted bool) string {
	switch {
	case a.class == "":
		return literalRune(a.char)
	case inverted:
		return a.turn
	}
	return a.class
}

// translateClass translates one, whose bracket is taken.
func (e *ecma) translateClass() error {
	inverted := e.takePrefix("^")
	if e.takePrefix("]") {
		if inverted {
			e.out.WriteString(`[\x{0}-\x{10FFFF}]`)
		} else {
			e.out.WriteString(`[a&&b]`) // none
		}
		return nil
	}
	e.out.WriteByte('[')
	if inverted {
		e.out.WriteByte('^')
	}
	for !e.takePrefix("]") {
		if e.rest == "" {
			return fmt.Errorf("missing ] of a class")
		}
		if err := e.translateClassMember(inverted); err != nil {
			return err
		}
	}
	e.out.WriteByte(']')
	return nil
}

// translateClassMember translates a character, a range or a class within a class.
func (e *ecma) translateClassMember(inverted bool) error {
	first, err := e.classAtom()
	if err != nil {
		return err
	}
	e.out.WriteString(first.regexText(inverted))
	if !strings.HasPrefix(e.rest, "-") || strings.HasPrefix(e.rest, "-]") {
		return nil
	}
	e.rest = e.rest[1:]
	last, err := e.classAtom()
	switch {
	case err != nil:
		return err
	case first.class != "" || last.class != "": // no range
		e.out.WriteString(literalRune('-') + last.regexText(inverted))
	case last.char < first.char:
		return fmt.Errorf("invalid range %q to %q: want the lower character first", first.char, last.char)
	default:
		e.out.WriteString("-" + literalRune(last.char))
	}
	return nil
}

func (e *ecma) classAtom() (atom, error) {
	if e.rest == "" {
		return atom{}, fmt.Errorf("missing ] of a class")
	}
	c := e.nextRune()
	if c == '\\' {
		return e.readEscape(true)
	}
	return atom{char: c}, nil
}

// literalRune is a character as it is in Rust's syntax, in a class or out of one.
func literalRune(c rune) string {
	if strings.ContainsRune(`\.+*?()|[]{}^$#&-~`, c) {
		return `\` + string(c)
	}
	return string(c)
}

// escapeChars are what letters behind a backslash stand for.
var escapeChars = map[rune]rune{'t': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r'}

// readEscape reads what is behind a backslash.
func (e *ecma) readEscape(inClass bool) (atom, error) {
	if e.rest == "" {
		return atom{}, fmt.Errorf("pattern ends with a backslash")
	}
	c := e.nextRune()
	char, known := escapeChars[c]
	switch {
	case known:
		return atom{char: char}, nil
	case strings.ContainsRune("dDwWsS", c):
		return classOf(byte(c)), nil
	case c == 'b' && inClass:
		return atom{char: '\b'}, nil
	case c == 'b' || c == 'B':
		return atom{}, fmt.Errorf(`\%c is not supported`, c)
	case c == '0' && !strings.ContainsAny(e.rest[:min(1, len(e.rest))], "0123456789"):
		return atom{char: 0}, nil
	case c >= '0' && c <= '9' || c == 'k':
		return atom{}, fmt.Errorf(`\%c is not supported: references to groups and octal numbers are not`, c)
	case c == 'c':
		if e.rest == "" || !isName(e.rest[:1]) || e.rest[0] == '_' || e.rest[0] == '$' {
			return atom{}, fmt.Errorf(`\c is not followed by a letter`)
		}
		return atom{char: e.nextRune() % 32}, nil
	case c == 'x':
		return e.readHex(2)
	case c == 'u':
		return e.readUnicodeEscape()
	case c == 'p' || c == 'P':
		return e.readProperty(c)
	case c < utf8.RuneSelf && isName(string(c)) && c != '$' && c != '_':
		return atom{}, fmt.Errorf(`\%c is not an escape of ECMA-262`, c)
	}
	return atom{char: c}, nil
}

// classOf is \d and the like, which have the smaller one of their two readings; a class that begins with ^ takes the larger one out.
func classOf(c byte) atom {
	ascii, unicode := asciiClasses[c], `\`+string(c)
	switch c {
	case 's':
		return atom{class: ascii, turn: `\s\x{FEFF}`}
	case 'S':
		return atom{class: `[^\s\x{FEFF}]`, turn: ascii}
	case 'd', 'w':
		return atom{class: ascii, turn: unicode}
	}
	return atom{class: unicode, turn: ascii}
}

// readHex reads a number of so many digits.
func (e *ecma) readHex(digits int) (atom, error) {
	n, err := strconv.ParseUint(e.rest[:min(digits, len(e.rest))], 16, 32)
	if err != nil || len(e.rest) < digits {
		return atom{}, fmt.Errorf("missing %d hexadecimal digits", digits)
	}
	e.rest = e.rest[digits:]
	return atom{char: rune(n)}, nil
}

// readUnicodeEscape reads a character by its number behind \u.
func (e *ecma) readUnicodeEscape() (a atom, err error) {
	if e.takePrefix("{") {
		digits, rest, found := upTo(e.rest, '}')
		n, err := strconv.ParseUint(digits, 16, 32)
		if a.char = rune(n); !found || err != nil || n > utf8.MaxRune {
			return a, fmt.Errorf(`\u{%.10s is not a character`, e.rest)
		}
		e.rest = rest
	} else if a, err = e.readHex(4); err == nil && utf16.IsSurrogate(a.char) && e.takePrefix(`\u`) {
		low, err := e.readHex(4)
		if err != nil {
			return a, err
		}
		a.char = utf16.DecodeRune(a.char, low.char)
	}
	if err == nil && (utf16.IsSurrogate(a.char) || a.char == utf8.RuneError) {
		return a, fmt.Errorf(`\u stands for half a character`)
	}
	return a, err
}

// The names of properties that ECMA-262 and Unicode's tables of Rust both know.
var (
	categories = strings.Fields("L Lu Ll Lt LC Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Cn Co " +
		"Letter Uppercase_Letter Lowercase_Letter Titlecase_Letter Cased_Letter Modifier_Letter Other_Letter Mark Nonspacing_Mark Spacing_Mark Enclosing_Mark " +
		"Number Decimal_Number Letter_Number Other_Number Punctuation Connector_Punctuation Dash_Punctuation Open_Punctuation Close_Punctuation Initial_Punctuation Final_Punctuation Other_Punctuation " +
		"Symbol Math_Symbol Currency_Symbol Modifier_Symbol Other_Symbol Separator Space_Separator Line_Separator Paragraph_Separator Other Control Format Unassigned Private_Use")
	properties = strings.Fields("Any ASCII Alphabetic Alpha Lowercase Lower Uppercase Upper White_Space Ideographic Math Dash Hex_Digit ASCII_Hex_Digit ID_Start ID_Continue XID_Start XID_Continue Emoji")
)

// readProperty reads one behind \p or \P.
func (e *ecma) readProperty(c rune) (atom, error) {
	body, rest, found := upTo(e.rest, '}')
	name, braced := strings.CutPrefix(body, "{")
	if !found || !braced {
		return atom{}, fmt.Errorf(`\%c is not followed by the name of a property in braces`, c)
	}
	key, value, pair := strings.Cut(name, "=")
	switch {
	case !pair && (slices.Contains(categories, name) || slices.Contains(properties, name)):
	case pair && (key == "gc" || key == "General_Category") && slices.Contains(categories, value):
	case pair && slices.Contains([]string{"sc", "Script", "scx", "Script_Extensions"}, key) && isName(value):
	default:
		return atom{}, fmt.Errorf(`\%c{%.40s} is not a known property of ECMA-262`, c, name)
	}
	e.rest = rest
	class := fmt.Sprintf(`\%c{%s}`, c, name)
	return atom{class: class, turn: class}, nil
}
