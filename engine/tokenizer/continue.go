package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"
)

// continueTag marks the end of the text to continue while its template is rendered, as transformers
// does; a template that trims its messages drops the space.
const continueTag = "CONTINUE_FINAL_MESSAGE_TAG "

// markFinal puts continueTag at the end of the last message's text, and returns that text.
func markFinal(messages []byte) (marked []byte, text string, err error) {
	final := finalText(messages)
	if final.from == final.to || messages[final.from] != '"' || json.Unmarshal(messages[final.from:final.to], &text) != nil {
		return nil, "", errors.New("continue_final_message: the last message has no text to continue")
	}
	return slices.Insert(slices.Clone(messages), final.to-1, []byte(continueTag)...), text, nil // before the closing quote
}

// cutFinal drops what the template has put after the final message's text.
func cutFinal(rendered, text string) (string, error) {
	at := strings.LastIndex(rendered, strings.TrimSpace(continueTag))
	if at < 0 || !strings.Contains(rendered, strings.TrimSpace(text)) {
		return "", errors.New("continue_final_message is set but the final message does not appear in the chat after applying the chat template, which leaves it out or changes it")
	}
	if strings.HasPrefix(rendered[at:], continueTag) {
		return rendered[:at], nil
	}
	return strings.TrimRightFunc(rendered[:at], unicode.IsSpace), nil
}

// span is a value's place in a JSON text.
type span struct{ from, to int }

// finalText finds the content of the last message, or of its parts the last text.
func finalText(messages []byte) span {
	var last, content, text span
	eachValue(messages, span{0, len(messages)}, func(_ string, s span) { last = s })
	eachValue(messages, last, func(key string, s span) {
		if key == "content" {
			content = s
		}
	})
	if content.from == content.to || messages[content.from] != '[' {
		return content
	}
	eachValue(messages, content, func(_ string, part span) {
		eachValue(messages, part, func(key string, s span) {
			if key == "text" {
				text = s
			}
		})
	})
	return text
}

// eachValue visits the values of the list or object at s, with their keys; of anything else, nothing.
func eachValue(text []byte, s span, visit func(key string, value span)) {
	decoder := json.NewDecoder(bytes.NewReader(text[s.from:s.to]))
	open, err := decoder.Token()
	for err == nil && decoder.More() {
		var key any
		var value json.RawMessage
		if open == json.Delim('{') {
			key, err = decoder.Token()
		}
		if err == nil {
			err = decoder.Decode(&value)
		}
		if end := s.from + int(decoder.InputOffset()); err == nil {
			name, _ := key.(string)
			visit(name, span{end - len(value), end})
		}
	}
}
