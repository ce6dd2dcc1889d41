package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// maxAdapters bounds the adapters of a model.
const maxAdapters = 1024

// LoRAModule is an adapter of a model's weights: its name in requests, and the directory where peft has saved it.
type LoRAModule struct{ Name, Path string }

// LoRAModules are a model's adapters.
type LoRAModules []LoRAModule

// Set reads NAME=PATH,... or a map or list of YAML, of which JSON is a part, as vLLM's --lora-modules has it.
func (l *LoRAModules) Set(text string) error {
	*l = nil
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	if !strings.ContainsRune("{[", rune(text[0])) {
		for item := range strings.SplitSeq(text, ",") {
			if err := l.addText(strings.TrimSpace(item)); err != nil {
				return err
			}
		}
		return nil
	}
	tree, err := parseYAML([]byte(text))
	if err != nil {
		return err
	}
	if len(tree.Docs) != 1 {
		return errNoAdapters
	}
	return decodeLoRAModules(l, tree.Docs[0].Body)
}

var errNoAdapters = fmt.Errorf(`want NAME=PATH,... or a map such as {"NAME": "PATH"}, or {"name": "NAME", "path": "PATH"} of one`)

// String is a map of YAML on one line; empty of none.
func (l *LoRAModules) String() string {
	var parts []string
	for _, m := range *l {
		parts = append(parts, strconv.Quote(m.Name)+": "+strconv.Quote(m.Path))
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (l *LoRAModules) addText(item string) error {
	name, path, ok := strings.Cut(item, "=")
	if !ok {
		return errNoAdapters
	}
	return l.add(name, path)
}

func (l *LoRAModules) add(name, path string) error {
	if name == "" || path == "" || strings.ContainsAny(path, "\n\x00") {
		return fmt.Errorf("invalid adapter %.80q at %.200q: want a name and a directory", name, path)
	}
	if len(*l) == maxAdapters {
		return fmt.Errorf("more than %d adapters of one model", maxAdapters)
	}
	*l = append(*l, LoRAModule{name, filepath.Clean(path)})
	return nil
}

func decodeLoRAModules(l *LoRAModules, n ast.Node) error {
	*l = nil
	if sequence, ok := n.(*ast.SequenceNode); ok {
		for _, item := range sequence.Values {
			if err := l.addNode(item); err != nil {
				return err
			}
		}
		return nil
	}
	return l.addNode(n)
}

// addNode adds what is written as NAME=PATH, as a map of names, or as one with a name and a path.
func (l *LoRAModules) addNode(n ast.Node) error {
	if text, err := scalarOf(n); err == nil {
		return l.addText(text)
	}
	pairs, err := mappingOf(n)
	if err != nil {
		return errNoAdapters
	}
	values := map[string]string{}
	var keys []string
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		if values[key], err = scalarOf(pair.Value); err != nil {
			return errNoAdapters
		}
		keys = append(keys, key)
	}
	if values["name"] != "" && values["path"] != "" {
		for _, key := range keys {
			if key != "name" && key != "path" && key != "base_model_name" {
				return fmt.Errorf("unknown key %q: want name and path", key)
			}
		}
		return l.add(values["name"], values["path"])
	}
	for _, key := range keys {
		if err := l.add(key, values[key]); err != nil {
			return err
		}
	}
	return nil
}

// takeNames adds the adapters' names to those that are taken, and checks that they are directories.
func (l LoRAModules) takeNames(where string, taken ModelNames) error {
	for _, m := range l {
		if err := taken.Take(where+": lora-modules", []string{m.Name}); err != nil {
			return err
		}
		if !isDir(m.Path) {
			return fmt.Errorf("%s: lora-modules: invalid path %s of %s: want a directory with adapter_config.json", where, m.Path, m.Name)
		}
	}
	return nil
}
