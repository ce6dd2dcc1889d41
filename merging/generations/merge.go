package generations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/search"
)

// Merge is `merge.json` of a generation.
type Merge struct {
	Generation    int               `json:"generation"` // 0: the files as they were
	Attempt       int               `json:"attempt"`    // of the search, that succeeded
	Reverted      []string          `json:"reverted,omitempty"`
	Why           map[string]string `json:"why,omitempty"` // of those that a server reverted
	Target        float64           `json:"target"`
	Policy        string            `json:"policy"`
	TotalBytes    int64             `json:"total_bytes"`  // of the models' layers, each with weights of its own
	SharedBytes   int64             `json:"shared_bytes"` // that one copy of what is shared saves
	SharedPercent float64           `json:"shared_percent"`
	ShipBytes     int64             `json:"ship_bytes"` // of constants that differ from the originals'
	Models        []Merged          `json:"models"`
	Shared        []Shared          `json:"shared"`
}

// Merged is a model of a generation.
type Merged struct {
	Name           string `json:"name"`
	File           string `json:"file"` // in the generation's directory
	SHA256         string `json:"sha256"`
	Original       string `json:"original"`
	OriginalSHA256 string `json:"original_sha256"`
	Score
	Altered   map[string]*Score `json:"altered,omitempty"` // on held-out frames that are dark, mirrored or noisy, of a model that was trained
	Changed   []string          `json:"changed_constants"`
	ShipBytes int64             `json:"ship_bytes"`
}

// checkFiles holds a description to what this package writes, as its files are read and written by their names.
func (m *Merge) checkFiles() error {
	if err := checkModelNames(m.networkNames()); err != nil {
		return err
	}
	for _, of := range m.Models {
		if of.File != fileOf(of.Name) {
			return fmt.Errorf("invalid file %q of model %s: want %s", of.File, of.Name, fileOf(of.Name))
		}
	}
	return nil
}

// alterations are the held-out frames, altered, on which a success is looked at, too.
var alterations = map[string]merging.Split{"dark": merging.HeldOutDark, "mirrored": merging.HeldOutMirrored, "noisy": merging.HeldOutNoisy}

// Shared is layers with the same weights.
type Shared struct {
	Bytes   int64    `json:"bytes"` // of one copy
	SHA256  string   `json:"sha256"`
	Donor   string   `json:"donor,omitempty"` // whose file has them; empty: they were trained jointly, or are the mean
	Members []Member `json:"members"`
}

// Member is a model's layer.
type Member struct {
	Model string `json:"model"`
	Layer string `json:"layer"`
}

// Sum is the SHA-256 of a content, as text.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// buildGeneration makes a generation of what a session has trained.
func (d *Dir) buildGeneration(ctx context.Context, plan *merging.Plan, session merging.Session, ship *search.Ship) (*Merge, [][]byte, error) {
	m := &Merge{Attempt: ship.Attempt, Target: d.inputs.Target, Policy: d.inputs.Policy, TotalBytes: plan.Total(), SharedBytes: ship.Saved, Shared: []Shared{}}
	var files [][]byte
	for i, in := range d.inputs.Models {
		content, err := os.ReadFile(in.File)
		if err != nil {
			return nil, nil, err
		}
		if Sum(content) != in.SHA256 {
			return nil, nil, fmt.Errorf("%s has changed since the merge began: put the old file back, or begin anew", in.File)
		}
		of := Merged{Name: in.Name, File: fileOf(in.Name), Original: in.File, OriginalSHA256: in.SHA256, Score: *scoreOf(ship.Scores[i]), Changed: []string{}}
		if constants := session.Constants(i); ship.Attempt > 0 && len(constants) > 0 {
			if of.Altered, err = lookAltered(ctx, session, i); err != nil {
				return nil, nil, err
			}
			if err := onnx.Patch(content, constants); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", in.File, err)
			}
			of.Changed = slices.AppendSeq(of.Changed, maps.Keys(constants))
			slices.Sort(of.Changed)
			for _, elements := range constants {
				of.ShipBytes += 4 * int64(len(elements))
			}
		}
		of.SHA256 = Sum(content)
		m.Models, files = append(m.Models, of), append(files, content)
	}
	return m, files, m.describeMerge(plan, ship.Ties, files)
}

// lookAltered scores a model on altered frames.
func lookAltered(ctx context.Context, session merging.Session, model int) (map[string]*Score, error) {
	scores := map[string]*Score{}
	for _, name := range slices.Sorted(maps.Keys(alterations)) {
		score, err := session.Evaluate(ctx, model, alterations[name])
		if err != nil {
			return nil, err
		}
		scores[name] = scoreOf(score)
	}
	return scores, nil
}

// describeMerge lists what is shared, and holds the files to it.
func (m *Merge) describeMerge(plan *merging.Plan, ties []merging.Tie, files [][]byte) error {
	sums, err := weightSums(files)
	if err != nil {
		return err
	}
	for _, t := range ties {
		s := Shared{SHA256: sums[t.Members[0]]}
		if t.Donor >= 0 {
			s.Donor = m.Models[t.Donor].Name
		}
		for _, of := range t.Members {
			s.Members = append(s.Members, Member{m.Models[of.Model].Name, of.Layer})
			if sums[of] != s.SHA256 {
				return fmt.Errorf("layer %s of %s came out of training with other weights than %s of %s, which it shares", of.Layer, m.Models[of.Model].Name, t.Members[0].Layer, m.Models[t.Members[0].Model].Name)
			}
		}
		layers := plan.Models[t.Members[0].Model].Layers
		s.Bytes = layers[slices.IndexFunc(layers, func(l merging.Layer) bool { return l.Name == t.Members[0].Layer })].Bytes
		m.Shared = append(m.Shared, s)
	}
	m.countBytes()
	return nil
}

// weightSums are those of each layer's weights.
func weightSums(files [][]byte) (map[merging.Member]string, error) {
	sums := map[merging.Member]string{}
	for i, content := range files {
		parsed, err := onnx.Parse(content)
		if err != nil {
			return nil, err
		}
		for _, l := range inspect.Layers(parsed.Graph) {
			sums[merging.Member{Model: i, Layer: l.Name}] = Sum(l.Weights.Const.Data)
		}
	}
	return sums, nil
}

// countBytes counts bytes.
func (m *Merge) countBytes() {
	m.SharedBytes, m.ShipBytes = 0, 0
	for _, s := range m.Shared {
		m.SharedBytes += s.Bytes * int64(len(s.Members)-1)
	}
	for _, of := range m.Models {
		m.ShipBytes += of.ShipBytes
	}
	m.SharedPercent = 100 * float64(m.SharedBytes) / float64(m.TotalBytes)
}

// Revert makes the originals of some models, of all if none is named, current again, in one step, and says what is.
func (d *Dir) Revert(models []string) (*Merge, error) { return d.revertNetworks(models, "") }

// revertNetworks is Revert, where a server says why.
func (d *Dir) revertNetworks(models []string, why string) (*Merge, error) {
	current, err := readMerge(d.path, currentName)
	if err != nil {
		return nil, fmt.Errorf("%s has no generation to go back from: %w", d.path, err)
	}
	original, err := readMerge(d.path, generation(0))
	if err != nil {
		return nil, err
	}
	for _, name := range models {
		if !slices.ContainsFunc(current.Models, func(m Merged) bool { return m.Name == name }) {
			return nil, fmt.Errorf("%s has no model %q: want one of %s", d.path, name, current.networkNames())
		}
	}
	if len(models) == 0 {
		return original, d.pointTo(0)
	}
	if !slices.Equal(current.networkNames(), original.networkNames()) {
		return nil, fmt.Errorf("%s: the current generation is of %v, and %s of %v: they are of two merges", d.path, current.networkNames(), generation(0), original.networkNames())
	}
	var files [][]byte
	changed := false
	for i := range current.Models {
		from := generation(current.Generation)
		if of := &current.Models[i]; slices.Contains(models, of.Name) && of.SHA256 != of.OriginalSHA256 {
			*of, from = original.Models[i], generation(0)
			current.Reverted = append(current.Reverted, of.Name)
			if why != "" {
				current.Why = maps.Clone(current.Why)
				if current.Why == nil {
					current.Why = map[string]string{}
				}
				current.Why[of.Name] = why
			}
			current.leaveOut(of.Name)
			changed = true
		}
		path := filepath.Join(d.path, from, current.Models[i].File)
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if sum := Sum(content); sum != current.Models[i].SHA256 {
			return nil, fmt.Errorf("%s is damaged: its sha256 is %s, want %s", path, sum, current.Models[i].SHA256)
		}
		files = append(files, content)
	}
	if !changed {
		return current, nil
	}
	current.countBytes()
	return current, d.writeGeneration(current, files)
}

func (m *Merge) networkNames() (list []string) {
	for _, of := range m.Models {
		list = append(list, of.Name)
	}
	return list
}

// leaveOut takes a model out of what is shared.
func (m *Merge) leaveOut(model string) {
	left := []Shared{}
	for _, s := range m.Shared {
		s.Members = slices.DeleteFunc(slices.Clone(s.Members), func(of Member) bool { return of.Model == model })
		if len(s.Members) > 1 {
			left = append(left, s)
		}
	}
	m.Shared = left
}

// RevertTo makes another generation the current one.
func (d *Dir) RevertTo(n int) (*Merge, error) {
	m, err := readMerge(d.path, generation(n))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		numbers, _ := list(d.path)
		return nil, fmt.Errorf("%s has no generation %d: there are %v", d.path, n, numbers)
	}
	return m, d.pointTo(n)
}
