package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName bounds the bytes of a model's name: it stands in every answer and in every line of its metrics.
const maxName = 256

// ModelNames are those that models have taken, and where each was given.
type ModelNames map[string]string

// Take adds a model's names, given where it says, unless one of them is no name or that of another model.
func (n ModelNames) Take(where string, names []string) error {
	for _, name := range names {
		switch owner, again := n[name]; {
		case again:
			return fmt.Errorf("%s: the name %q is already that of %s", where, name, owner)
		case name == "":
			return fmt.Errorf("%s: empty name", where)
		case len(name) > maxName:
			return fmt.Errorf("%s: name has %d bytes, want at most %d", where, len(name), maxName)
		case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
			return fmt.Errorf("%s: invalid name %q: want printable characters", where, name)
		}
		n[name] = where
	}
	return nil
}

// CheckModelNames refuses names that two models have. Names that were left empty are known only when the paths are.
func CheckModelNames(list []Model) error {
	taken := ModelNames{}
	for i := range list {
		where := fmt.Sprintf("model %d (%s)", i+1, list[i].Path)
		if err := taken.Take(where, list[i].Names); err != nil {
			return fmt.Errorf("%w; give it another with NAME=PATH, or name in models", err)
		}
		if err := list[i].LoRAModules.takeNames(where, taken); err != nil {
			return err
		}
	}
	return nil
}
