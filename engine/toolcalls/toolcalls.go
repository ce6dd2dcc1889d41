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
	p := &Parser{form: parsers[name], state: (*Parser).findCallMark}
	if p.form.open == "" {
		p.state = (*Parser).detectLlamaCall
	}
	return p
}

// ParseText takes more of the answer, the last of it if last, and returns what is known with it.
func (p *Parser) ParseText(text string, last bool) []Part {
	p.text, p.last, p.parts = append(p.text, text...), last, nil
	for p.state(p) {
	}
	if last {
		p.emitText(append(p.held, p.text...))
		p.held, p.text = nil, nil
	}
	return p.parts
}

// Calls is how many calls are known.
func (p *Parser) Calls() int { return p.calls }

// Parse reads a whole answer. Calls whose arguments are no JSON, as those that were cut are not, make all of it text.
func Parse(name, text string) (content string, calls []Call) {
	p := New(name)
	for _, part := range p.ParseText(text, true) {
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

// emitText tells text, unless there were calls before it.
func (p *Parser) emitText(text []byte) {
	if len(text) == 0 || p.begun {
		return
	}
	if n := len(p.parts); n > 0 && p.parts[n-1].Name == "" && p.parts[n-1].Arguments == "" {
		p.parts[n-1].Text += string(text)
		return
	}
	p.parts = append(p.parts, Part{Text: string(text)})
}

// holdText moves n bytes of text to what is held.
func (p *Parser) holdText(n int) {
	p.held = append(p.held, p.text[:n]...)
	p.text = p.text[n:]
}

// skipSpace takes white space, and says whether something is behind it.
func (p *Parser) skipSpace() bool {
	p.holdText(len(p.text) - len(bytes.TrimLeft(p.text, " \t\r\n")))
	return len(p.text) > 0
}

// findCallMark looks for the beginning of a call; the end of text that may be one waits.
func (p *Parser) findCallMark() bool {
	at := bytes.Index(p.text, []byte(p.form.open))
	if at >= 0 {
		p.emitText(p.text[:at])
		p.text = p.text[at:]
		p.holdText(len(p.form.open))
		p.open((*Parser).parseAfterMark)
		return true
	}
	n := len(p.text) - partialMarkLen(p.text, p.form.open)
	p.emitText(p.text[:n])
	p.text = p.text[n:]
	return false
}

// partialMarkLen is how many bytes at the end of text may be the beginning of mark.
func partialMarkLen(text []byte, mark string) int {
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

// detectLlamaCall looks whether an answer is a call of Llama 3.
func (p *Parser) detectLlamaCall() bool {
	if !p.skipSpace() {
		return false
	}
	switch {
	case len(p.text) >= len(start) && string(p.text[:len(start)]) == start:
		p.holdText(len(start))
	case p.text[0] == '{':
	case partialMarkLen(p.text, start) == len(p.text) && !p.last:
		return false
	default:
		return p.emitAllText()
	}
	p.open((*Parser).parseCall)
	return true
}

// emitAllText makes text of all that is held and follows.
func (p *Parser) emitAllText() bool {
	p.emitText(p.held)
	p.held = nil
	p.state = func(p *Parser) bool {
		p.emitText(p.text)
		p.text = nil
		return false
	}
	return true
}

// parseAfterMark is behind a mark: before an object, a list of them, or a name.
func (p *Parser) parseAfterMark() bool {
	if !p.skipSpace() {
		return false
	}
	switch {
	case p.text[0] == '{':
		p.state = (*Parser).parseCall
	case p.form.list && p.text[0] == '[':
		p.holdText(1)
		p.state = (*Parser).parseCall
	case p.form.list:
		p.state = (*Parser).name
	default:
		return p.emitAllText()
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
		return p.emitAllText()
	}
	p.named = name
	p.holdText(at)
	p.state = (*Parser).parseCall
	return true
}

// parseCall reads a call.
func (p *Parser) parseCall() bool {
	if p.in.pos == 0 && !p.skipSpace() {
		return false
	}
	told := p.in.told
	n := p.in.read(p.text, p.named != "")
	if p.named != "" {
		p.in.name = p.named
	}
	known, over := p.in.isCall(), p.in.done || p.in.bad
	switch {
	case over && !known:
		return p.emitAllText()
	case !known:
		p.holdText(n)
		return false
	}
	p.tell(told)
	p.text = p.text[n:]
	if p.in.done {
		p.state = (*Parser).findNextCall
	} else if p.in.bad { // what was told cannot be taken back
		p.state = (*Parser).discardText
	}
	return over
}

// discardText leaves out what follows.
func (p *Parser) discardText() bool {
	p.text = nil
	return false
}

// tell says what is new of a call.
func (p *Parser) tell(told int) {
	part := Part{Call: p.calls - 1, Arguments: p.in.newArguments()}
	if told == 0 {
		part.Call, part.Name = p.calls, p.in.name
		p.calls++
		p.begun, p.held = true, nil
	}
	if part.Name != "" || part.Arguments != "" {
		p.parts = append(p.parts, part)
	}
}

// findNextCall looks for the next call behind one: another mark, or what parts the objects of a list.
func (p *Parser) findNextCall() bool {
	p.text = bytes.TrimLeft(p.text, " \t\r\n,;")
	switch {
	case len(p.text) == 0:
		return false
	case p.text[0] == '{':
		p.open((*Parser).parseCall)
		return true
	case p.form.open == "":
		p.state = (*Parser).discardText
		return true
	}
	p.state = (*Parser).findCallMark
	return true
}
