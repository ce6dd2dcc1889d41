package tokenizer

import (
	"encoding/json"
	"maps"
	"strings"
)

// TokenizerInfo is what tokenizer_config.json says, less the names of files, with the special tokens as texts and
// the chat template as they are used here.
func (t *Tokenizer) TokenizerInfo() map[string]json.RawMessage {
	info := maps.Clone(t.chat.config)
	if info == nil {
		info = map[string]json.RawMessage{}
	}
	maps.DeleteFunc(info, func(name string, _ json.RawMessage) bool {
		return strings.HasSuffix(name, "_file") || name == "name_or_path"
	})
	if info["tokenizer_class"] == nil {
		info["tokenizer_class"] = json.RawMessage(`"PreTrainedTokenizerFast"`)
	}
	texts := maps.Clone(t.chat.special)
	if source := t.chat.templates["default"].source; source != "" {
		texts["chat_template"] = source
	}
	for name, text := range texts {
		info[name], _ = json.Marshal(text) // a string has a JSON form
	}
	return info
}
