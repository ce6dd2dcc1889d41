package completion

import (
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/api/forms"
	"github.com/prefillonly/prefillonly/engine/grammar"
	"github.com/prefillonly/prefillonly/engine/toolcalls"
)

// callForm is the form of an answer that calls one of functions: of one its arguments, of several also which.
func callForm(functions []forms.Function) (grammar.Kind, string) {
	if len(functions) == 1 {
		return grammar.JSONSchema, grammar.Schema(functions[0].Parameters, false)
	}
	var names, schemas []string
	for _, f := range functions {
		names, schemas = append(names, f.Name), append(schemas, f.Parameters)
	}
	return grammar.Lark, grammar.Calls(names, schemas)
}

// callsFunction says whether the answers call a function.
func (c *Call) callsFunction() bool { return c.Form != nil && c.Form.Kind == forms.Call }

// freshMessage is what the choice has to say that was not said yet.
func (ch *choice) freshMessage(i int) *completions.ChatMessage {
	switch {
	case ch.parser != nil && ch.c.Stream:
		return ch.streamedMessage(i)
	case ch.parser != nil:
		return ch.parsedMessage(i)
	case !ch.c.callsFunction():
		return &completions.ChatMessage{Content: ch.freshText()}
	}
	m := &completions.ChatMessage{Calls: true}
	if text, first, known := ch.freshArguments(); known && (first || text != "") {
		call := completions.ToolCall{Function: completions.CalledByName{Arguments: text}}
		if first {
			call.ID, call.Type, call.Function.Name = ch.callID(i, 0), "function", ch.called
		}
		m.ToolCalls = []completions.ToolCall{call}
	}
	return m
}

// parsedMessage is a whole answer, in whose words calls are looked for.
func (ch *choice) parsedMessage(i int) *completions.ChatMessage {
	content, calls := toolcalls.Parse(ch.c.toolParser, ch.freshText())
	m := &completions.ChatMessage{Content: content, Calls: content == "" && len(calls) > 0}
	for n, call := range calls {
		m.ToolCalls = append(m.ToolCalls, completions.ToolCall{ID: ch.callID(i, n), Type: "function", Function: completions.CalledByName(call)})
	}
	ch.calls = len(calls)
	return m
}

// streamedMessage is what is new of an answer in whose words calls are looked for.
func (ch *choice) streamedMessage(i int) *completions.ChatMessage {
	m := &completions.ChatMessage{}
	for _, part := range ch.parser.ParseText(ch.freshText(), ch.isDone()) {
		call := completions.ToolCall{Index: part.Call, Function: completions.CalledByName{Name: part.Name, Arguments: part.Arguments}}
		switch n := len(m.ToolCalls); {
		case part.Name != "":
			call.ID, call.Type = ch.callID(i, part.Call), "function"
			m.ToolCalls = append(m.ToolCalls, call)
		case part.Arguments == "":
			m.Content += part.Text
		case n > 0 && m.ToolCalls[n-1].Index == part.Call:
			m.ToolCalls[n-1].Function.Arguments += part.Arguments
		default:
			m.ToolCalls = append(m.ToolCalls, call)
		}
	}
	ch.calls = ch.parser.Calls()
	m.Calls = m.Content == "" && ch.calls > 0
	return m
}

// callID names a call of choice i. Mistral's templates take names of 9 letters and digits alone.
func (ch *choice) callID(i, call int) string {
	id := fmt.Sprintf("call_%s_%d", ch.c.ID, i)
	if ch.parser == nil {
		return id
	}
	id = fmt.Sprintf("%s_%d", id, call)
	if ch.c.toolParser != "mistral" {
		return id
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, id)
	return fmt.Sprintf("%09s", strconv.FormatUint(h.Sum64()%101559956668416, 36)) // 36^9
}

// freshArguments are those of the function called that were not said yet; they are known as soon as it is. First says that
// nothing of the call was said.
func (ch *choice) freshArguments() (text string, first, known bool) {
	text = ch.freshText()
	if ch.called != "" {
		return text, false, true
	}
	functions := ch.c.Form.Functions
	if len(functions) == 1 {
		ch.called = functions[0].Name
		return text, true, true
	}
	ch.opening += text
	for _, f := range functions {
		if rest, found := strings.CutPrefix(ch.opening, grammar.Call(f.Name)); found {
			ch.called, ch.opening = f.Name, ""
			return rest, true, true
		}
	}
	return "", false, false
}
