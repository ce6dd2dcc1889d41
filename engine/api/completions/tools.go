package completions

import (
	"strconv"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/forms"
)

// readTools reads the request's tools, and the Form of an answer that must call one of them.
func (r *ChatRequest) readTools() *api.Error {
	called, auto, err := forms.Calls(r.Tools, r.ToolChoice)
	r.AutoTools = auto
	switch {
	case err != nil || called == nil:
		return err
	case r.Form != nil:
		return api.Invalid("tool_choice", "tool_choice and %s both say what the answer must be; give one", r.Form.Field)
	case len(r.AllowedTokenIDs) > 0:
		return api.Invalid("allowed_token_ids", "allowed_token_ids and tool_choice both say which tokens may come; give one")
	}
	r.Form = called
	return nil
}

// ToolCall is a function's name and its arguments as JSON text. In an event ID is empty where it goes on with arguments.
type ToolCall struct {
	Index    int          `json:"-"` // of the answer's calls; in events alone
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"` // "function"
	Function CalledByName `json:"function"`
}

// CalledByName is the function of a ToolCall.
type CalledByName struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// appendJSON writes a call, as an element of a list.
func (c *ToolCall) appendJSON(b []byte, event bool) []byte {
	b = append(b, '{')
	if event {
		b = append(strconv.AppendInt(append(b, `"index":`...), int64(c.Index), 10), ',')
	}
	if c.ID != "" {
		b = api.AppendString(append(b, `"id":`...), c.ID)
		b = append(b, `,"type":"function",`...)
	}
	b = append(b, `"function":{`...)
	if c.Function.Name != "" {
		b = api.AppendString(append(b, `"name":`...), c.Function.Name)
		b = append(b, ',')
	}
	b = api.AppendString(append(b, `"arguments":`...), c.Function.Arguments)
	return append(b, `}}`...)
}
