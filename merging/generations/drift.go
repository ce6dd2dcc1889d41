package generations

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Current is the directory of the generation that is current in a merge's; empty: none is yet.
func Current(path string) (string, error) {
	link := filepath.Join(path, currentName)
	to, err := os.Readlink(link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, syscall.EINVAL):
		return "", fmt.Errorf("%s is a copy, want a symbolic link to a generation: remove it, and make a generation current by `prefillonly merge revert %s --to N`", link, path)
	case err != nil:
		return "", err
	case !filepath.IsLocal(to):
		return "", fmt.Errorf("%s leads to %s, want a generation there", link, to)
	}
	return filepath.Join(path, to), nil
}

// ReadGeneration reads the description of the generation in a directory.
func ReadGeneration(dir string) (*Merge, error) { return readMerge(dir, ".") }

// RevertDrifted makes the original of a model current again in a merge's directory, as it was found to have drifted in a generation; why is kept with it. If
// another generation is current by now, nothing is done.
func RevertDrifted(path string, from int, model, why string) (*Merge, error) {
	d, err := OpenExisting(path)
	if err != nil {
		return nil, err
	}
	m, err := readMerge(path, currentName)
	if err == nil && m.Generation == from {
		m, err = d.revertNetworks([]string{model}, why)
	}
	return m, errors.Join(err, d.Close())
}

// Watched is how a server watches a model that a merge has changed.
type Watched struct {
	Generation int       `json:"generation"`
	Samples    uint64    `json:"samples"` // that the original has looked at, too
	Score      float64   `json:"score"`   // F1 over the last of them
	Target     float64   `json:"target"`
	At         time.Time `json:"at"`
}

// watchedName is the file in a merge's directory that says how its models are watched, by their names.
const watchedName = "drift.json"

// NoteWatched says how a model is watched, for those who ask how the merge stands. One process does so at a time.
func NoteWatched(path, model string, now Watched) error {
	all, err := readWatched(path)
	if err != nil || all == nil {
		all = map[string]Watched{} // one that is damaged is written anew
	}
	all[model] = now
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	name := filepath.Join(path, watchedName)
	if err := os.WriteFile(name+partialSuffix, append(text, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(name+partialSuffix, name)
}

// readWatched is how models are watched; nil: none is.
func readWatched(path string) (all map[string]Watched, err error) {
	text, err := os.ReadFile(filepath.Join(path, watchedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}
