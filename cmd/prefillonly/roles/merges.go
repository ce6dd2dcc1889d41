package roles

import (
	"cmp"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/merging/generations"
	"github.com/prefillonly/prefillonly/videoext/drift"
	"github.com/prefillonly/prefillonly/videoext/live"
)

// mergeOf is what a served model has of a merge; nil: nothing.
func mergeOf(m *config.Model) *live.Merge {
	if m.Merged == "" {
		return nil
	}
	of := &live.Merge{
		Dir: m.Merged, Original: m.Names[0] + config.OriginalSuffix,
		Watch: drift.Config{Sample: cmp.Or(m.Drift.Sample, config.DefaultDriftSample), Rate: cmp.Or(m.Drift.Rate, config.DefaultDriftRate), Target: m.Drift.Target},
	}
	dir, err := filepath.Dir(m.Path), error(nil)
	if filepath.Dir(dir) != m.Merged { // it is the network as it was
		dir, err = generations.Current(m.Merged)
	}
	if err != nil || dir == "" {
		return of
	}
	merge, err := generations.ReadGeneration(dir)
	if err != nil {
		return of
	}
	of.Generation, of.Shared, of.Watch.Target = merge.Generation, merge.SharedBytes, cmp.Or(m.Drift.Target, merge.Target)
	if member := modellist.Member(merge, m, m.Path); member != nil {
		of.Member, of.Changed = member.Name, filepath.Dir(m.Path) == dir
	}
	return of
}

// mergeDirs are the directories of merges.
type mergeDirs struct{ log *zap.Logger }

// Revert implements live.Merges.
func (mergeDirs) Revert(m *live.Merge, why string) error {
	_, err := generations.RevertDrifted(m.Dir, m.Generation, m.Member, why)
	return err
}

// Note implements live.Merges.
func (d mergeDirs) Note(m *live.Merge, now drift.Figures) {
	err := generations.NoteWatched(m.Dir, m.Member, generations.Watched{Generation: m.Generation, Samples: now.Samples, Score: now.Score, Target: m.Watch.Target, At: time.Now()})
	if err != nil {
		d.log.Debug("how a merge does is not kept in its directory", zap.String("directory", m.Dir), zap.Error(err))
	}
}
