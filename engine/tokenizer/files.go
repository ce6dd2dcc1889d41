package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// files is what the files beside tokenizer.json say.
type files struct {
	special   map[string]string // "bos_token" and the like, to their texts
	eosIDs    []engine.TokenID
	templates map[string]namedTemplate   // chat templates by name; "default" is the usual one
	config    map[string]json.RawMessage // tokenizer_config.json
}

// namedTemplate is the source of a chat template and the name of its file.
type namedTemplate struct{ source, file string } // the file is empty of one that is not the checkpoint's

// maxFile is the most that is read of a file beside tokenizer.json, in bytes.
const maxFile = 64 << 20

const tokenizerConfig = "tokenizer_config.json"

// specialNames are the special tokens that chat templates may name.
var specialNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

func readFiles(dir string) (*files, error) {
	f := &files{special: map[string]string{}, templates: map[string]namedTemplate{}}
	var tokens, config map[string]json.RawMessage
	if err := readJSON(dir, "special_tokens_map.json", &tokens); err != nil {
		return nil, err
	}
	if err := readJSON(dir, tokenizerConfig, &config); err != nil {
		return nil, err
	}
	f.config = config
	for _, m := range []map[string]json.RawMessage{tokens, config} {
		for _, name := range specialNames {
			if text, ok := tokenText(m[name]); ok {
				f.special[name] = text
			}
		}
	}
	if err := f.readEOS(dir); err != nil {
		return nil, err
	}
	return f, f.readTemplates(dir, config["chat_template"])
}

// readJSON decodes dir/name into v, and leaves v alone when there is no such file.
func readJSON(dir, name string, v any) error {
	path := filepath.Join(dir, name)
	text, err := regular.ReadFile(path, maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %s", path, jsonerror.Explain(err, v))
	}
	return nil
}

// tokenText reads a special token, which is written as a text or as {"content": text}.
func tokenText(raw json.RawMessage) (string, bool) {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return "", false
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	var token struct{ Content *string }
	if json.Unmarshal(raw, &token) != nil || token.Content == nil {
		return "", false
	}
	return *token.Content, true
}

// readEOS takes eos_token_id, one id or a list, from generation_config.json, else config.json.
func (f *files) readEOS(dir string) error {
	for _, name := range []string{"generation_config.json", "config.json"} {
		var config struct {
			EOS json.RawMessage `json:"eos_token_id"`
		}
		if err := readJSON(dir, name, &config); err != nil {
			return err
		}
		if len(config.EOS) == 0 || string(config.EOS) == "null" {
			continue
		}
		var one engine.TokenID
		if json.Unmarshal(config.EOS, &one) == nil {
			f.eosIDs = []engine.TokenID{one}
		} else if err := json.Unmarshal(config.EOS, &f.eosIDs); err != nil {
			return fmt.Errorf("%s: invalid eos_token_id %.60s: want a token id or a list of them", filepath.Join(dir, name), config.EOS)
		}
		return nil
	}
	return nil
}

// readTemplates finds the chat templates: chat_template.jinja goes before chat_template.json, and
// both before chat_template of tokenizer_config.json, which is one template or a list with names.
func (f *files) readTemplates(dir string, inConfig json.RawMessage) error {
	var one string
	var named []struct{ Name, Template string }
	if json.Unmarshal(inConfig, &one) == nil && one != "" {
		f.templates["default"] = namedTemplate{one, tokenizerConfig}
	} else if json.Unmarshal(inConfig, &named) == nil {
		for _, t := range named {
			f.templates[t.Name] = namedTemplate{t.Template, tokenizerConfig}
		}
	}
	var processor struct {
		Template string `json:"chat_template"`
	}
	if err := readJSON(dir, "chat_template.json", &processor); err != nil {
		return err
	}
	if processor.Template != "" {
		f.templates["default"] = namedTemplate{processor.Template, "chat_template.json"}
	}
	text, err := regular.ReadFile(filepath.Join(dir, "chat_template.jinja"), maxFile)
	if err == nil {
		f.templates["default"] = namedTemplate{string(text), "chat_template.jinja"}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
