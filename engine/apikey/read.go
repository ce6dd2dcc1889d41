package apikey

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// AdminMark is the word of a line that makes its key an admin's.
const AdminMark = "@admin"

// key is what a line says. No error shows any of it: a line in the wrong place may be a secret.
type key struct {
	token, group string
	admin        bool
	place        string // where it stands
}

// Sent is the key that a client sends: the first of a file, or of a list between commas where there is no file. It is empty if both are.
func Sent(file, list string) (string, error) {
	var entries []string
	if file == "" && list != "" {
		entries = strings.Split(list, ",")
	}
	keys, err := readKeys(entries, file)
	if err != nil || len(keys) == 0 {
		return "", err
	}
	return keys[0].token, nil
}

// readKeys gives the keys of entries and of a file's lines, at least one of each that is there. What follows a word's # in a line is a comment.
func readKeys(entries []string, file string) (keys []key, err error) {
	if len(entries) > 0 {
		place := func(i int) string { return fmt.Sprintf("API key %d", i+1) }
		if keys, err = parseAll(entries, place); err != nil {
			return nil, err
		}
		if len(keys) == 0 {
			return nil, errors.New("the list of API keys has no key, only comments or blanks")
		}
	}
	if file == "" {
		return keys, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	place := func(i int) string { return fmt.Sprintf("%s, line %d", file, i+1) }
	more, err := parseAll(strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n"), place)
	if err == nil && len(more) == 0 {
		err = fmt.Errorf("%s holds no key, only comments or blank lines", file)
	}
	return append(keys, more...), err
}

func parseAll(lines []string, place func(i int) string) (keys []key, err error) {
	for i, line := range lines {
		k := key{place: place(i)}
		words := withoutComment(strings.Fields(line))
		if len(words) == 0 {
			continue
		}
		if err := k.parse(words); err != nil {
			return nil, fmt.Errorf("%s %w", k.place, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func withoutComment(words []string) []string {
	for i, word := range words {
		if strings.HasPrefix(word, "#") {
			return words[:i]
		}
	}
	return words
}

// parse reads the words of a line; its errors say what the line has.
func (k *key) parse(words []string) error {
	if n := len(words); n > 1 && words[n-1] == AdminMark {
		k.admin, words = true, words[:n-1]
	}
	switch {
	case len(words) > 2:
		return fmt.Errorf("has %d words; want KEY, or KEY GROUP for keys that share the prefix cache, and %s behind it for one that may load and unload models", len(words), AdminMark)
	case strings.HasPrefix(words[0], "@"):
		return fmt.Errorf("begins with a mark; want a key before it, as in KEY %s", AdminMark)
	case len(words) == 2 && strings.HasPrefix(words[1], "@"):
		return fmt.Errorf("has an unknown mark: the only one is %s", AdminMark)
	}
	if at := strings.IndexFunc(words[0], func(r rune) bool { return r <= ' ' || r >= 0x7f }); at >= 0 {
		return fmt.Errorf("is not a valid key: byte %d is not printable ASCII, which HTTP headers need", at+1)
	}
	if k.token = words[0]; len(words) == 2 {
		k.group = words[1]
	}
	return nil
}

func (k *key) owner() Owner {
	holder := "key " + k.token
	if k.group != "" {
		holder = "group " + k.group
	}
	return Owner{domain: holder, holder: holder, admin: k.admin}
}
