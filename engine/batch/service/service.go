// Package service keeps OpenAI's files and batches: their HTTP, the store they are in, and the running of batches, those of an
// owner in the order in which they were made.
package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/batch"
	"github.com/prefillonly/prefillonly/engine/batch/runner"
)

// Config is how files and batches are kept.
type Config struct {
	Dir       string // private to this process
	Space     int64  // bytes of all files and answers
	SpaceEach int64  // of an owner's
	MaxLines  int    // of a batch
	Rules     batch.Rules
	Room      *runner.Room
	// Ask sends lines on behalf of the owner of an id; ok is false if there is none any more.
	Ask func(owner string) (ask runner.Ask, ok bool)
}

// Service is files and batches. Its methods are safe for concurrent use.
type Service struct {
	// set once
	cfg   Config
	log   *zap.Logger
	store *store
	space *space
	ctx   context.Context // ends when the service is to end
	stop  context.CancelFunc
	work  sync.WaitGroup // ends with ctx

	mu      sync.Mutex
	workers map[string]bool    // guarded by mu: owners whose batches are being run
	active  map[string]*active // guarded by mu: the batches that are, by id
}

// Open opens what is kept in a directory, and goes on with its batches. The caller closes it.
func Open(cfg Config, log *zap.Logger) (*Service, error) {
	st, err := openStore(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, log: log, store: st, space: &space{mostAll: cfg.Space, mostEach: cfg.SpaceEach, each: map[string]int64{}},
		workers: map[string]bool{}, active: map[string]*active{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	owners, err := s.recallStore()
	if err != nil {
		return nil, errors.Join(err, st.db.Close())
	}
	for owner := range owners {
		s.begin(owner)
	}
	s.work.Go(s.sweepExpired)
	return s, nil
}

// Close stops the batches where they are, and closes the store.
func (s *Service) Close() error {
	s.stop()
	s.work.Wait()
	return s.store.db.Close()
}

// recallStore counts what is stored, removes bytes that belong to nothing, and returns the owners of batches that have not ended.
func (s *Service) recallStore() (owners map[string]bool, err error) {
	owners, known := map[string]bool{}, map[string]bool{}
	err = s.store.db.View(func(tx *bolt.Tx) error {
		err := eachRecord(tx, fileBucket, "", func(owner string, f *fileRecord) error {
			known[f.ID] = true
			s.count(owner, f.Bytes+fileCost)
			return nil
		})
		return errors.Join(err, eachRecord(tx, batchBucket, "", func(owner string, b *batchRecord) error {
			if b.ended() {
				return nil
			}
			owners[owner] = true
			for _, id := range []string{b.Output, b.Refused} {
				known[id] = true
				if info, err := os.Stat(s.store.path(id)); err == nil {
					s.count(owner, info.Size())
				}
			}
			return nil
		}))
	})
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(s.store.dir, "files"))
	for _, e := range entries {
		if !known[e.Name()] {
			err = errors.Join(err, s.store.remove(e.Name()))
		}
	}
	return owners, err
}

// count counts bytes that are there, whatever the limit.
func (s *Service) count(owner string, n int64) { s.space.giveBytes(owner, -n) }

// sweepEvery is how often files that have expired are removed; nobody sees them before that either.
const sweepEvery = 10 * time.Second

func (s *Service) sweepExpired() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		type old struct{ owner, id string }
		var list []old
		now := time.Now()
		err := s.store.db.View(func(tx *bolt.Tx) error {
			return eachRecord(tx, fileBucket, "", func(owner string, f *fileRecord) error {
				if f.isGone(now) {
					list = append(list, old{owner, f.ID})
				}
				return nil
			})
		})
		for _, o := range list {
			err = errors.Join(err, s.deleteFile(o.owner, o.id))
		}
		if err != nil {
			s.log.Error("files that have expired are not all removed", zap.Error(err))
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// deleteFile removes a file; one that a batch still reads is hidden until that has ended.
func (s *Service) deleteFile(owner, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var freed int64
	removed := false
	err := s.store.db.Update(func(tx *bolt.Tx) error {
		f, err := getRecord[fileRecord](tx, fileBucket, owner, id)
		if err != nil {
			return err
		}
		used := false
		err = eachRecord(tx, batchBucket, owner, func(_ string, b *batchRecord) error {
			used = used || !b.ended() && b.InputFileID == id
			return nil
		})
		if err != nil {
			return err
		}
		if used {
			if f.Deleted {
				return nil
			}
			f.Deleted = true
			return putRecord(tx, fileBucket, owner, id, f)
		}
		freed, removed = f.Bytes+fileCost, true
		return tx.Bucket(fileBucket).Delete(keyOf(owner, id))
	})
	if err != nil || !removed {
		return err
	}
	s.space.giveBytes(owner, freed)
	return s.store.remove(id)
}
