package gguf

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// IsName says whether a file's name is that of a GGUF file.
func IsName(path string) bool { return strings.EqualFold(filepath.Ext(path), ".gguf") }

// shardEnding is how the names of the files end that a model is split into: which one it is, from 1 on, and of how many.
var shardEnding = regexp.MustCompile(`-(\d{5})-of-(\d{5})(\.[gG][gG][uU][fF])$`)

// ModelName is what a model is called after its file, or the first of its files.
func ModelName(path string) string {
	name := filepath.Base(path)
	return strings.TrimSuffix(shardEnding.ReplaceAllString(name, ""), filepath.Ext(name))
}

// Shard is which of a model's files this is, from 0 on, and of how many.
func (m *Metadata) Shard() (at, of int, err error) {
	if !m.Has("split.count") {
		return 0, 1, nil
	}
	if of, err = m.Int("split.count"); err == nil && of > 1 {
		at, err = m.Int("split.no")
	}
	if of = max(of, 1); err == nil && (of > 99999 || at < 0 || at >= of) {
		err = fmt.Errorf("key %q is %d and %q is %d, want a file of at most 99999", "split.no", at, "split.count", of)
	}
	return at, of, err
}

// OtherShards names the files that follow the first of a model that is split, which path is.
func (m *Metadata) OtherShards(path string) ([]string, error) {
	at, of, err := m.Shard()
	switch {
	case err != nil:
		return nil, err
	case of == 1:
		return nil, nil
	}
	parts := shardEnding.FindStringSubmatch(path)
	if at != 0 || parts == nil || parts[1] != "00001" || parts[2] != pad5(of) {
		return nil, fmt.Errorf("is file %d of a model that is split into %d: want the first, whose name ends in -00001-of-%s.gguf", at+1, of, pad5(of))
	}
	var names []string
	for i := 2; i <= of; i++ {
		names = append(names, strings.TrimSuffix(path, parts[0])+"-"+pad5(i)+"-of-"+pad5(of)+parts[3])
	}
	return names, nil
}

func pad5(n int) string { return strings.Repeat("0", 5-len(strconv.Itoa(n))) + strconv.Itoa(n) }
