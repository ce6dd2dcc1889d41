// Package toolcalls finds calls of functions in the words of a model's answer, in the forms of vLLM's parsers.
package toolcalls

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Part is what an answer goes on with: text, or more of a call.
type Part struct {
	Text      string // if Name and Arguments are empty
	Call      int    // which call, from 0
	Name      string // of the function, where the call begins
	Arguments string // JSON text
}

// Call is a whole call.
type Call struct{ Name, Arguments string }

// form is how a family of models writes calls.
type form struct {
	open string // stands before each call, or before the list of them; empty: an answer that begins with { or start is a call
	list bool   // calls may be a list, or a name before its arguments, as Mistral's
}

// start may stand before the calls of Llama 3.
const start = "<|python_tag|>"

// parsers are vLLM's names for the forms: Hermes and Qwen write <tool_call>{...}</tool_call>, Llama 3 {...}; {...}, and
// Mistral [TOOL_CALLS][{...}, {...}] or [TOOL_CALLS]name{...}.
var parsers = map[string]form{
	"hermes":      {open: "<tool_call>"},
	"llama3_json": {},
	"mistral":     {open: "[TOOL_CALLS]", list: true},
}

// Names are those of the parsers.
func Names() []string { return []string{"hermes", "llama3_json", "mistral"} }

// Parser reads an answer as it comes. Text behind the first call is left out.
type Parser struct {
	form  form
	state func(*Parser) bool // takes what it can of text, and says whether another look may take more
	text  []byte             // that came and is not taken
	last  bool               // no more comes
	parts []Part

	begun bool   // a call is known
	calls int    // that are known
	held  []byte // of text, what is to be told as text should it be no call
	in    object
	named string // of a call whose name stands before its arguments
}

// New makes a Parser of a name of Names.
func New(name string) *Parser {
	p := &Parser{form: parsers[name], state: (*Parser).outside}
	if p.form.open == "" {
		p.state = (*Parser).beginning
	}
	return p
}

// Add takes more of the answer, the last of it if last, and returns what is known with it.
func (p *Parser) Add(text string, last bool) []Part {
	p.text, p.last, p.parts = append(p.text, text...), last, nil
	for p.state(p) {
	}
	if last {
		p.say(append(p.held, p.text...))
		p.held, p.text = nil, nil
	}
	return p.parts
}

// Calls is how many calls are known.
func (p *Parser) Calls() int { return p.calls }

// Parse reads a whole answer. Calls whose arguments are no JSON, as those that were cut are not, make all of it text.
func Parse(name, text string) (content string, calls []Call) {
	p := New(name)
	for _, part := range p.Add(text, true) {
		switch {
		case part.Name != "":
			calls = append(calls, Call{part.Name, part.Arguments})
		case part.Arguments != "":
			calls[part.Call].Arguments += part.Arguments
		default:
			content += part.Text
		}
	}
	for _, c := range calls {
		if !json.Valid([]byte(c.Arguments)) {
			return text, nil
		}
	}
	return content, calls
}

// say tells text, unless there were calls before it.
func (p *Parser) say(text []byte) {
	if len(text) == 0 || p.begun {
		return
	}
	if n := len(p.parts); n > 0 && p.parts[n-1].Name == "" && p.parts[n-1].Arguments == "" {
		p.parts[n-1].Text += string(text)
		return
	}
	p.parts = append(p.parts, Part{Text: string(text)})
}

// take moves n bytes of text to what is held.
func (p *Parser) take(n int) {
	p.held = append(p.held, p.text[:n]...)
	p.text = p.text[n:]
}

// space takes white space, and says whether something is behind it.
func (p *Parser) space() bool {
	p.take(len(p.text) - len(bytes.TrimLeft(p.text, " \t\r\n")))
	return len(p.text) > 0
}

// outside looks for the beginning of a call; the end of text that may be one waits.
func (p *Parser) outside() bool {
	at := bytes.Index(p.text, []byte(p.form.open))
	if at >= 0 {
		p.say(p.text[:at])
		p.text = p.text[at:]
		p.take(len(p.form.open))
		p.open((*Parser).inside)
		return true
	}
	n := len(p.text) - partial(p.text, p.form.open)
	p.say(p.text[:n])
	p.text = p.text[n:]
	return false
}

// partial is how many bytes at the end of text may be the beginning of mark.
func partial(text []byte, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasPrefix(mark, string(text[len(text)-n:])) {
			return n
		}
	}
	return 0
}

// open goes on to the beginning of a call.
func (p *Parser) open(next func(*Parser) bool) {
	p.in, p.named, p.state = object{}, "", next
}

// beginning looks whether an answer is a call of Llama 3.
func (p *Parser) beginning() bool {
	if !p.space() {
		return false
	}
	switch {
	case len(p.text) >= len(start) && string(p.text[:len(start)]) == start:
		p.take(len(start))
	case p.text[0] == '{':
	case partial(p.text, start) == len(p.text) && !p.last:
		return false
	default:
		return p.plain()
	}
	p.open((*Parser).object)
	return true
}

// plain makes text of all that is held and follows.
func (p *Parser) plain() bool {
	p.say(p.held)
	p.held = nil
	p.state = func(p *Parser) bool {
		p.say(p.text)
		p.text = nil
		return false
	}
	return true
}

// inside is behind a mark: before an object, a list of them, or a name.
func (p *Parser) inside() bool {
	if !p.space() {
		return false
	}
	switch {
	case p.text[0] == '{':
		p.state = (*Parser).object
	case p.form.list && p.text[0] == '[':
		p.take(1)
		p.state = (*Parser).object
	case p.form.list:
		p.state = (*Parser).name
	default:
		return p.plain()
	}
	return true
}

// maxName bounds the name that may stand before arguments.
const maxName = 256

// name reads what stands before arguments: Mistral's newer models write name{...} or name[ARGS]{...}.
func (p *Parser) name() bool {
	at := bytes.IndexByte(p.text, '{')
	if at < 0 && len(p.text) <= maxName && !p.last {
		return false
	}
	name, _, _ := strings.Cut(string(p.text[:max(at, 0)]), "[CALL_ID]")
	name = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(name), "[ARGS]"))
	if at <= 0 || at > maxName || name == "" {
		return p.plain()
	}
	p.named = name
	p.take(at)
	p.state = (*Parser).object
	return true
}

// object reads a call.
func (p *Parser) object() bool {
	if p.in.pos == 0 && !p.space() {
		return false
	}
	told := p.in.told
	n := p.in.read(p.text, p.named != "")
	if p.named != "" {
		p.in.name = p.named
	}
	known, over := p.in.known(), p.in.done || p.in.bad
	switch {
	case over && !known:
		return p.plain()
	case !known:
		p.take(n)
		return false
	}
	p.tell(told)
	p.text = p.text[n:]
	if p.in.done {
		p.state = (*Parser).between
	} else if p.in.bad { // what was told cannot be taken back
		p.state = (*Parser).nothing
	}
	return over
}

// nothing leaves out what follows.
func (p *Parser) nothing() bool {
	p.text = nil
	return false
}

// tell says what is new of a call.
func (p *Parser) tell(told int) {
	part := Part{Call: p.calls - 1, Arguments: p.in.fresh()}
	if told == 0 {
		part.Call, part.Name = p.calls, p.in.name
		p.calls++
		p.begun, p.held = true, nil
	}
	if part.Name != "" || part.Arguments != "" {
		p.parts = append(p.parts, part)
	}
}

// between looks for the next call behind one: another mark, or what parts the objects of a list.
func (p *Parser) between() bool {
	p.text = bytes.TrimLeft(p.text, " \t\r\n,;")
	switch {
	case len(p.text) == 0:
		return false
	case p.text[0] == '{':
		p.open((*Parser).object)
		return true
	case p.form.open == "":
		p.state = (*Parser).nothing
		return true
	}
	p.state = (*Parser).outside
	return true
}
