package completion

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

// callForm is the form of an answer that calls one of functions: of one its arguments, of several also which.
func callForm(functions []api.Function) (grammar.Kind, string) {
	if len(functions) == 1 {
		return grammar.JSONSchema, grammar.Schema(functions[0].Parameters, false)
	}
	var names, schemas []string
	for _, f := range functions {
		names, schemas = append(names, f.Name), append(schemas, f.Parameters)
	}
	return grammar.Lark, grammar.Calls(names, schemas)
}

// calls says whether the answers call a function.
func (c *Call) calls() bool { return c.Form != nil && c.Form.Kind == api.FormCall }

// message is what the choice has to say that was not said yet.
func (ch *choice) message(i int) *api.ChatMessage {
	if !ch.c.calls() {
		return &api.ChatMessage{Content: ch.fresh()}
	}
	m := &api.ChatMessage{Calls: true}
	if text, first, known := ch.arguments(); known && (first || text != "") {
		call := api.ToolCall{Function: api.CalledByName{Arguments: text}}
		if first {
			call.ID, call.Type, call.Function.Name = fmt.Sprintf("call_%s_%d", ch.c.from.ID, i), "function", ch.called
		}
		m.ToolCalls = []api.ToolCall{call}
	}
	return m
}

// arguments are those of the function called that were not said yet; they are known as soon as it is. First says that
// nothing of the call was said.
func (ch *choice) arguments() (text string, first, known bool) {
	text = ch.fresh()
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
