package hub

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// mainRevision is the revision of those who ask for none.
const mainRevision = "main"

// Model is a repository of the hub at one of its revisions.
type Model struct {
	ID       string // "org/name" or "name"
	Revision string // a branch, a tag or a commit
}

// String is the model as a user names it.
func (m Model) String() string {
	if m.Revision == mainRevision {
		return m.ID
	}
	return m.ID + "@" + m.Revision
}

var (
	validID  = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,95}(/[\w.-]{1,96})?$`)
	isCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)
	isSHA256 = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// IsName says that a word can name a model of the hub: org/name, also with @revision.
func IsName(word string) bool {
	id, _, _ := strings.Cut(word, "@")
	return validID.MatchString(id) && !strings.Contains(id, "--") && !strings.Contains(id, "..") && !strings.HasSuffix(id, ".git")
}

// Parse reads org/name or org/name@revision. A revision that is given beside it must be the same.
func Parse(word, revision string) (Model, error) {
	if !IsName(word) {
		return Model{}, fmt.Errorf("invalid model name %q: want org/name without .. or --", word)
	}
	id, own, given := strings.Cut(word, "@")
	switch {
	case !given:
		own = revision
	case revision != "" && own != revision:
		return Model{}, fmt.Errorf("model %q: revision is also %q: give one of the two", word, revision)
	}
	if own == "" && !given {
		own = mainRevision
	}
	if !validRevision(own) {
		return Model{}, fmt.Errorf("model %q: invalid revision %.100q: want a branch, a tag or a commit", id, own)
	}
	return Model{id, own}, nil
}

// validRevision says that a revision can be the name of a file below refs.
func validRevision(r string) bool {
	return len(r) <= 200 && isLocal(r) && !strings.ContainsFunc(r, unicode.IsSpace)
}

// isLocal says that a path of a repository names a file below its directory, as written: nothing in it is a way out, or
// another way to write the same.
func isLocal(name string) bool {
	if name == "" || name == "." || len(name) > 1000 || !filepath.IsLocal(name) || path.Clean(name) != name {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 255 {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == unicode.ReplacementChar })
}
