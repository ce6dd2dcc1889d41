package modellist

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/merging/generations"
)

// expandMerges has each network of a merge be what is current there, and puts the network as it was behind it. What is wrong with one is in failed, at its
// position. A list that was expanded stays as it is: processes of a server that read it see one generation, whatever is current by then.
func expandMerges(list []config.Model, failed []error) (all []config.Model, wrong []error) {
	for i, m := range list {
		if m.Merged == "" || failed[i] != nil {
			all, wrong = append(all, m), append(wrong, failed[i])
			continue
		}
		original := m
		original.Names, original.Merged, original.Drift = []string{m.Names[0] + config.OriginalSuffix}, "", config.Drift{}
		original.Keep, original.CacheShare = config.Keep{When: config.KeepOnDemand}, 0
		if slices.ContainsFunc(list, func(o config.Model) bool { return slices.Equal(o.Names, original.Names) }) {
			all, wrong = append(all, m), append(wrong, nil)
			continue
		}
		if err := useCurrent(&m); err != nil {
			all, wrong = append(all, m), append(wrong, fmt.Errorf("model %s: merged: %w", m.Names[0], err))
			continue
		}
		all, wrong = append(all, m, original), append(wrong, nil, nil)
	}
	return all, wrong
}

// useCurrent makes a model's path that of what is current in its merge, unless that is the network as it was.
func useCurrent(m *config.Model) (err error) {
	file, ok := dnn.File(m.Path)
	if !ok {
		return fmt.Errorf("%s is no network: want an .onnx file", m.Path)
	}
	if m.Merged, err = filepath.Abs(m.Merged); err != nil {
		return err
	}
	dir, err := generations.Current(m.Merged)
	if err != nil || dir == "" {
		return err
	}
	merge, err := generations.ReadGeneration(dir)
	if err != nil {
		return err
	}
	of := Member(merge, m, file)
	if of == nil {
		return fmt.Errorf("%s has no model that is called %s, or was %s", m.Merged, m.Names[0], file)
	}
	if of.SHA256 == of.OriginalSHA256 {
		return nil
	}
	m.Path = filepath.Join(dir, of.File)
	if size, err := sizeOf(file); err != nil {
		return err
	} else if merged, err := sizeOf(m.Path); err != nil {
		return err
	} else if size != merged {
		return fmt.Errorf("%s has %d bytes, and %s, which is to be merged from it, has %d: it is another network's", file, size, m.Path, merged)
	}
	return nil
}

// Member is the part that a served model has of a merge: that of its name, or of its file; nil: none.
func Member(merge *generations.Merge, m *config.Model, file string) *generations.Merged {
	at := slices.IndexFunc(merge.Models, func(of generations.Merged) bool { return slices.Contains(m.Names, of.Name) })
	if at < 0 {
		at = slices.IndexFunc(merge.Models, func(of generations.Merged) bool { return IsSameFile(of.Original, file) })
	}
	if at < 0 {
		return nil
	}
	return &merge.Models[at]
}

// IsSameFile says that two paths are of one file.
func IsSameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func sizeOf(file string) (int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// IsOriginal says that a model is a network as it was before a merge that another one is of.
func IsOriginal(cfg *config.Config, m *config.Model) bool {
	return slices.ContainsFunc(cfg.Models, func(o config.Model) bool { return o.Merged != "" && m.Names[0] == o.Names[0]+config.OriginalSuffix })
}

// CurrentGenerations are the directories of those of the models' merges.
func CurrentGenerations(list []config.Model) (dirs []string) {
	for i := range list {
		if list[i].Merged != "" {
			dir, _ := generations.Current(list[i].Merged) // what cannot be read is none
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Superseding are the files that merges have made current for models that were resolved to others.
func Superseding(list []config.Model) (files []string) {
	for _, m := range list {
		at := slices.IndexFunc(list, func(o config.Model) bool { return m.Merged != "" && o.Names[0] == m.Names[0]+config.OriginalSuffix })
		if at < 0 {
			continue
		}
		now := m
		now.Path = list[at].Path
		if err := useCurrent(&now); err == nil && now.Path != m.Path {
			files = append(files, now.Path)
		}
	}
	return files
}
