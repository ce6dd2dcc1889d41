// Package generations keeps a merge in a directory, and carries it on there. In it are `events.jsonl`, what has happened; `state`, from which a run that
// was killed goes on to the same end; `0000`, the files as they were, and a directory for each success, with a file for each model and `merge.json`; and
// `current`, a link to one of them, which is switched in one step.
package generations

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/internal/dirlock"
)

// The names in a directory.
const (
	eventsName  = "events.jsonl"
	stateName   = "state"
	currentName = "current"
	mergeName   = "merge.json"
	lockName    = "merge"
)

// Dir is a merge's directory, this process's alone.
type Dir struct {
	path   string
	lock   io.Closer
	inputs Inputs
	log    *os.File // of events
	events []Event  // that are in it, the first the inputs
	ends   []int64  // of their lines
}

// Inputs are what a merge comes of: equal ones give equal files.
type Inputs struct {
	Models []Input `json:"models"`
	Policy string  `json:"policy"`
	Target float64 `json:"target"`
	Seed   uint64  `json:"seed"`
}

// Input is a model before it is merged.
type Input struct {
	Name       string `json:"name"`
	File       string `json:"file"`
	SHA256     string `json:"sha256"`
	Decoder    string `json:"decoder"`
	Clip       string `json:"clip"`
	ClipSHA256 string `json:"clip_sha256"`
}

// checkNames refuses names that are not those of files, or of two models.
func (in *Inputs) checkNames() error {
	var names []string
	for _, m := range in.Models {
		names = append(names, m.Name)
	}
	return checkModelNames(names)
}

func checkModelNames(names []string) error {
	for i, name := range names {
		if strings.ContainsAny(name, "/\x00") || len(name) > 200 || name == "" || name == "." || name == ".." {
			return fmt.Errorf("invalid name of a model %q: want that of a file, without slashes and of at most 200 bytes", name)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("two models are called %s: give one of them another name", name)
		}
	}
	return nil
}

// fileOf is a model's file in a generation's directory.
func fileOf(model string) string { return model + ".onnx" }

// difference names what another run's inputs have differently; "" for nothing.
func (in *Inputs) difference(other *Inputs) string {
	if len(in.Models) != len(other.Models) {
		return fmt.Sprintf("%d models, want %d", len(other.Models), len(in.Models))
	}
	for i, m := range in.Models {
		o := other.Models[i]
		for _, f := range [][3]string{
			{"name", o.Name, m.Name}, {"file's sha256", o.SHA256, m.SHA256}, {"decoder", o.Decoder, m.Decoder}, {"clip's sha256", o.ClipSHA256, m.ClipSHA256},
		} {
			if f[1] != f[2] {
				return fmt.Sprintf("model %s: %s %s, want %s", m.Name, f[0], f[1], f[2])
			}
		}
	}
	for _, f := range [][3]string{
		{"policy", other.Policy, in.Policy}, {"target", fmt.Sprint(other.Target), fmt.Sprint(in.Target)}, {"seed", fmt.Sprint(other.Seed), fmt.Sprint(in.Seed)},
	} {
		if f[1] != f[2] {
			return fmt.Sprintf("%s %s, want %s", f[0], f[1], f[2])
		}
	}
	return ""
}

// Open opens the directory of a merge, which is made if there is none. One of other inputs is refused, as is one that holds something else.
func Open(path string, in Inputs) (*Dir, error) {
	if err := errors.Join(in.checkNames(), CheckDir(path)); err != nil {
		return nil, err
	}
	d, err := openDir(path)
	if err != nil {
		return nil, err
	}
	d.inputs = in
	if len(d.events) > 0 && d.events[0].Inputs != nil {
		if differs := in.difference(d.events[0].Inputs); differs == "" {
			return d, nil
		} else if _, err := os.Lstat(filepath.Join(path, currentName)); err == nil {
			return nil, errors.Join(fmt.Errorf("%s has a merge of other inputs (%s): give another directory, or remove it", path, differs), d.Close())
		}
	}
	return d, d.orClose(d.restartRun())
}

// OpenExisting opens the directory of a merge that there is.
func OpenExisting(path string) (*Dir, error) {
	if _, err := os.Stat(filepath.Join(path, eventsName)); err != nil {
		return nil, fmt.Errorf("%s has no merge: %w", path, err)
	}
	d, err := openDir(path)
	if err == nil && (len(d.events) == 0 || d.events[0].Inputs == nil) {
		return nil, errors.Join(fmt.Errorf("%s: %s does not say what the merge is of", path, eventsName), d.Close())
	}
	if err == nil {
		d.inputs = *d.events[0].Inputs
	}
	return d, err
}

// own are the names of what a merge keeps.
var own = regexp.MustCompile(`^(events\.jsonl|state|current|drift\.json|merge\.lock|\d{4,}|report\.html|stream-.+\.avi)(\.partial)?$`)

// CheckDir refuses a directory that holds anything but a merge.
func CheckDir(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !own.MatchString(e.Name()) {
			return fmt.Errorf("%s holds %s, which does not belong to a merge: give a directory that is empty, or is not there", path, e.Name())
		}
	}
	return nil
}

// openDir locks a directory, removes what was being written, and reads what has happened.
func openDir(path string) (*Dir, error) {
	lock, err := dirlock.Take(path, lockName)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), partialSuffix) && own.MatchString(e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(path, e.Name())))
		}
	}
	if err == nil {
		d.log, err = os.OpenFile(filepath.Join(path, eventsName), os.O_RDWR|os.O_CREATE, 0o666)
	}
	if err == nil {
		err = d.readEvents()
	}
	return d, d.orClose(err)
}

// orClose closes the directory if there is an error, and returns it.
func (d *Dir) orClose(err error) error {
	if err != nil {
		err = errors.Join(err, d.Close())
	}
	return err
}

// Close lets go of the directory.
func (d *Dir) Close() error {
	var err error
	if d.log != nil {
		err = d.log.Close()
	}
	return errors.Join(err, d.lock.Close())
}

// restartRun forgets all that has happened. No generation has been current.
func (d *Dir) restartRun() error {
	numbers, err := list(d.path)
	if err != nil {
		return err
	}
	names := []string{stateName}
	for _, n := range numbers {
		names = append(names, generation(n))
	}
	for _, name := range names {
		path := filepath.Join(d.path, name)
		if err := errors.Join(beforeWrite(path), os.RemoveAll(path)); err != nil {
			return err
		}
	}
	if err := d.truncateEvents(0); err != nil {
		return err
	}
	return d.appendEvent(Event{Event: Begun, Inputs: &d.inputs})
}

// generation is the name of a generation's directory.
func generation(n int) string { return fmt.Sprintf("%04d", n) }

// list is the numbers of the generations there are.
func list(path string) (numbers []int, err error) {
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		var n int
		if _, scan := fmt.Sscanf(e.Name(), "%d", &n); scan == nil && generation(n) == e.Name() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// readMerge reads a generation's description; dir may be Current.
func readMerge(path, dir string) (*Merge, error) {
	name := filepath.Join(path, dir, mergeName)
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	m := &Merge{}
	if err := errors.Join(json.Unmarshal(text, m), m.checkFiles()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// writeGeneration writes a generation behind those there are, and makes it the current one. One that was written before the process was killed is not written again.
func (d *Dir) writeGeneration(m *Merge, files [][]byte) error {
	numbers, err := list(d.path)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		old, err := readMerge(d.path, generation(n))
		if err != nil {
			return err
		}
		if old.Attempt == m.Attempt && len(old.Reverted) == 0 && len(m.Reverted) == 0 {
			m.Generation = n
			return d.pointTo(n)
		}
		m.Generation = n + 1
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	var names []string
	for _, of := range m.Models {
		names = append(names, of.File)
	}
	if err := writeDir(filepath.Join(d.path, generation(m.Generation)), append(names, mergeName), append(slices.Clip(files), append(text, '\n'))); err != nil {
		return err
	}
	return d.pointTo(m.Generation)
}

// pointTo makes a generation the current one.
func (d *Dir) pointTo(n int) error {
	return writeLink(generation(n), filepath.Join(d.path, currentName))
}
