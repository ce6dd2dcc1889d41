package peft

import (
	"fmt"
	"regexp"
)

// maxPatterns bounds the keys of rank_pattern, and of alpha_pattern: each is matched with every module.
const maxPatterns = 1024

// patterns are what a map says of modules by patterns of their names.
type patterns[T comparable] []pattern[T]

// pattern is of a whole name, or of its end behind a dot.
type pattern[T comparable] struct {
	re    *regexp.Regexp
	value T
}

func compilePatterns[T comparable](given map[string]T) (patterns[T], error) {
	if len(given) > maxPatterns {
		return nil, fmt.Errorf("got %d keys, want at most %d", len(given), maxPatterns)
	}
	var list patterns[T]
	for _, key := range sortedKeys(given) {
		re, err := regexp.Compile(`^(?:.*\.)?(?:` + key + `)$`)
		if err != nil {
			return nil, err
		}
		list = append(list, pattern[T]{re, given[key]})
	}
	return list, nil
}

// findValue is what is said of a module, or the usual value.
func (p patterns[T]) findValue(name string, usual T) (T, error) {
	found := false
	for _, x := range p {
		switch {
		case !x.re.MatchString(name):
		case found && x.value != usual:
			return usual, fmt.Errorf("several of its keys match %.200s and differ: want one", name)
		default:
			usual, found = x.value, true
		}
	}
	return usual, nil
}
