package api

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// Function is a tool that an answer may call: its name, and the JSON schema of its arguments.
type Function struct {
	Name       string
	Parameters string
}

// MaxTools bounds the tools of one request.
const MaxTools = 128

// functionName is what OpenAI takes.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// noParameters is the schema of a function that says none.
const noParameters = `{"type":"object","properties":{},"additionalProperties":false}`

// functions reads tools, a list of {"type": "function", "function": {"name", "parameters"}}.
func functions(raw json.RawMessage) ([]Function, *Error) {
	if Neutral(raw, "[]") {
		return nil, nil
	}
	var tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &tools) != nil {
		return nil, Invalid("tools", "tools must be a list of {\"type\": \"function\", \"function\": {\"name\", \"parameters\"}} objects")
	}
	if len(tools) > MaxTools {
		return nil, Invalid("tools", "tools has %d tools; the limit is %d", len(tools), MaxTools)
	}
	all, named := make([]Function, len(tools)), map[string]bool{}
	for i, tool := range tools {
		switch name := tool.Function.Name; {
		case tool.Type != "function":
			return nil, Invalid("tools", "tools[%d] is of type %.40q; only function is served", i, tool.Type)
		case !functionName.MatchString(name):
			return nil, Invalid("tools", "tools[%d].function.name is %.80q; it must have 1 to 64 letters, digits, _, - and .", i, name)
		case named[name]:
			return nil, Invalid("tools", "tools has the function %s twice", name)
		}
		named[tool.Function.Name] = true
		all[i] = Function{tool.Function.Name, noParameters}
		if !Neutral(tool.Function.Parameters, "") {
			schema := Form{Field: fmt.Sprintf("tools[%d].function.parameters", i)}
			if err := schema.readSchema(tool.Function.Parameters); err != nil {
				return nil, err
			}
			all[i].Parameters = schema.Text
		}
	}
	return all, nil
}

// readTools reads the request's tools, and the Form of an answer that must call one of them.
func (r *ChatRequest) readTools() *Error {
	all, err := functions(r.Tools)
	if err != nil {
		return err
	}
	called, err := r.chosen(all)
	if err != nil || len(called) == 0 {
		r.AutoTools = err == nil && len(all) > 0 && Neutral(r.ToolChoice, `"auto"`)
		return err
	}
	if r.Form != nil {
		return Invalid("tool_choice", "tool_choice and %s both say what the answer must be; give one", r.Form.Field)
	}
	if len(r.AllowedTokenIDs) > 0 {
		return Invalid("allowed_token_ids", "allowed_token_ids and tool_choice both say which tokens may come; give one")
	}
	r.Form = &Form{Field: "tools", Kind: FormCall, Functions: called}
	return nil
}

// chosen are those of all functions of which tool_choice wants one to be called; none where the model may say anything.
func (r *ChatRequest) chosen(all []Function) ([]Function, *Error) {
	if Neutral(r.ToolChoice, "\"none\"\n\"auto\"") {
		return nil, nil
	}
	if Neutral(r.ToolChoice, `"required"`) {
		if len(all) == 0 {
			return nil, Invalid("tool_choice", "tool_choice is required, and tools has none")
		}
		return all, nil
	}
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(r.ToolChoice, &named) != nil || named.Type != "function" {
		return nil, Invalid("tool_choice", `tool_choice must be none, auto, required or {"type": "function", "function": {"name"}}`)
	}
	for _, f := range all {
		if f.Name == named.Function.Name {
			return []Function{f}, nil
		}
	}
	return nil, Invalid("tool_choice", "tool_choice names the function %.80q, which tools does not have", named.Function.Name)
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

// append writes a call, as an element of a list.
func (c *ToolCall) append(b []byte, event bool) []byte {
	b = append(b, '{')
	if event {
		b = append(strconv.AppendInt(append(b, `"index":`...), int64(c.Index), 10), ',')
	}
	if c.ID != "" {
		b = AppendString(append(b, `"id":`...), c.ID)
		b = append(b, `,"type":"function",`...)
	}
	b = append(b, `"function":{`...)
	if c.Function.Name != "" {
		b = AppendString(append(b, `"name":`...), c.Function.Name)
		b = append(b, ',')
	}
	b = AppendString(append(b, `"arguments":`...), c.Function.Arguments)
	return append(b, `}}`...)
}
