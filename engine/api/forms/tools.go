package forms

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/prefillonly/prefillonly/engine/api"
)

// Function is a tool that an answer may call: its name, and the JSON schema of its arguments.
type Function struct {
	Name       string
	Parameters string
}

// maxTools bounds the tools of one request.
const maxTools = 128

// functionName is what OpenAI takes.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// noParameters is the schema of a function that says none.
const noParameters = `{"type":"object","properties":{},"additionalProperties":false}`

// Calls reads a request's tools and its tool_choice: the Form of an answer that must call one of them, nil where none has to be
// called, and whether the model may call one where it likes to.
func Calls(tools, choice json.RawMessage) (form *Form, auto bool, err *api.Error) {
	all, err := parseTools(tools)
	if err != nil {
		return nil, false, err
	}
	called, err := chosenFunctions(all, choice)
	if err != nil {
		return nil, false, err
	}
	if len(called) == 0 {
		return nil, len(all) > 0 && api.Neutral(choice, `"auto"`), nil
	}
	return &Form{Field: "tools", Kind: Call, Functions: called}, false, nil
}

// parseTools reads tools, a list of {"type": "function", "function": {"name", "parameters"}}.
func parseTools(raw json.RawMessage) ([]Function, *api.Error) {
	if api.Neutral(raw, "[]") {
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
		return nil, api.Invalid("tools", "tools must be a list of {\"type\": \"function\", \"function\": {\"name\", \"parameters\"}} objects")
	}
	if len(tools) > maxTools {
		return nil, api.Invalid("tools", "tools has %d tools; the limit is %d", len(tools), maxTools)
	}
	all, named := make([]Function, len(tools)), map[string]bool{}
	for i, tool := range tools {
		switch name := tool.Function.Name; {
		case tool.Type != "function":
			return nil, api.Invalid("tools", "tools[%d] is of type %.40q; only function is served", i, tool.Type)
		case !functionName.MatchString(name):
			return nil, api.Invalid("tools", "tools[%d].function.name is %.80q; it must have 1 to 64 letters, digits, _, - and .", i, name)
		case named[name]:
			return nil, api.Invalid("tools", "tools has the function %s twice", name)
		}
		named[tool.Function.Name] = true
		all[i] = Function{tool.Function.Name, noParameters}
		if !api.Neutral(tool.Function.Parameters, "") {
			schema := Form{Field: fmt.Sprintf("tools[%d].function.parameters", i)}
			if err := schema.readSchema(tool.Function.Parameters); err != nil {
				return nil, err
			}
			all[i].Parameters = schema.Text
		}
	}
	return all, nil
}

// chosenFunctions are those of all functions of which tool_choice wants one to be called; none where the model may say anything.
func chosenFunctions(all []Function, choice json.RawMessage) ([]Function, *api.Error) {
	if api.Neutral(choice, "\"none\"\n\"auto\"") {
		return nil, nil
	}
	if api.Neutral(choice, `"required"`) {
		if len(all) == 0 {
			return nil, api.Invalid("tool_choice", "tool_choice is required, and tools has none")
		}
		return all, nil
	}
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(choice, &named) != nil || named.Type != "function" {
		return nil, api.Invalid("tool_choice", `tool_choice must be none, auto, required or {"type": "function", "function": {"name"}}`)
	}
	for _, f := range all {
		if f.Name == named.Function.Name {
			return []Function{f}, nil
		}
	}
	return nil, api.Invalid("tool_choice", "tool_choice names the function %.80q, which tools does not have", named.Function.Name)
}
