package grammar

import (
	"strconv"
	"strings"
)

// Schema is a JSON schema, an object, whose texts have one layout: spaces behind commas and colons as in most JSON that models
// have seen, or none at all if compact, and no others. So what a model does not decide needs no pass, and it cannot go on
// with white space for ever. A schema that says a layout itself (x-guidance) keeps it.
func Schema(schema string, compact bool) string {
	layout := `{"x-guidance":{"whitespace_flexible":false,"item_separator":", ","key_separator":": "}`
	if compact {
		layout = `{"x-guidance":{"whitespace_flexible":false,"item_separator":",","key_separator":":"}`
	}
	rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(schema), "{"))
	if strings.HasPrefix(rest, "}") {
		return layout + rest
	}
	return layout + "," + rest
}

// WholeRegex drops the anchors at the ends of a regular expression: it is of the whole text anyway.
func WholeRegex(text string) string {
	text = strings.TrimPrefix(text, "^")
	bare, found := strings.CutSuffix(text, "$")
	if escapes := len(bare) - len(strings.TrimRight(bare, `\`)); found && escapes%2 == 0 {
		return bare
	}
	return text
}

// Call opens the text that calls the function of a name, of letters, digits and _.-; its arguments follow.
func Call(name string) string { return `{"name": "` + name + `", "arguments": ` }

// Calls is the grammar, in Lark, of the texts that call one of some functions: Call of its name, and then JSON of the schema
// of its arguments.
func Calls(names, schemas []string) string {
	var b strings.Builder
	for i, name := range names {
		b.WriteString([]string{"start: ", "\n    | "}[min(i, 1)])
		b.WriteString(strconv.Quote(Call(name)) + " %json " + Schema(schemas[i], false))
	}
	return b.String() + "\n"
}
