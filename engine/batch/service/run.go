package service

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/batch"
	"github.com/prefillonly/prefillonly/engine/batch/runner"
)

// active is a batch that is being run.
type active struct {
	owner  string
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	counts counts // guarded by mu
}

func (a *active) currentCounts() counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

func (a *active) addAnswer(ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok {
		a.counts.Completed++
	} else {
		a.counts.Failed++
	}
}

// recallAnswers counts answers given before.
func (a *active) recallAnswers(done batch.Answered) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.Completed, a.counts.Failed = 0, 0
	for _, outcome := range done {
		if outcome.OK {
			a.counts.Completed++
		} else {
			a.counts.Failed++
		}
	}
}

// errCancelled ends a batch on its owner's behalf.
var errCancelled = errors.New("cancelled")

// errExpired is of a batch whose window is over.
var errExpired = errors.New("expired")

// begin has an owner's batches run, unless they are. The worker ends when none is left, or with the service.
func (s *Service) begin(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers[owner] || s.ctx.Err() != nil {
		return
	}
	s.workers[owner] = true
	s.work.Go(func() {
		for s.ctx.Err() == nil {
			b, a, ctx := s.nextBatch(owner)
			if b == nil {
				return
			}
			s.run(ctx, b, a)
		}
	})
}

// nextBatch makes the oldest batch of an owner that has not ended active. Without one the owner's worker is gone.
func (s *Service) nextBatch(owner string) (*batchRecord, *active, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *batchRecord
	done := errors.New("found")
	err := s.store.db.View(func(tx *bolt.Tx) error {
		return eachRecord(tx, batchBucket, owner, func(_ string, b *batchRecord) error {
			if b.ended() {
				return nil
			}
			first = b
			return done
		})
	})
	if first == nil {
		if err != nil {
			s.log.Error("batches cannot be read", zap.Error(err))
		}
		delete(s.workers, owner)
		return nil, nil, nil
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	a := &active{owner: owner, cancel: cancel, counts: first.Counts}
	s.active[first.ID] = a
	return first, a, ctx
}

// run takes a batch to its end, unless the service ends.
func (s *Service) run(ctx context.Context, b *batchRecord, a *active) {
	defer a.cancel(nil)
	log := s.log.With(zap.String("batch", b.ID))
	done := batch.Answered{}
	journals := map[bool]*runner.Journal{}
	err := s.openJournals(b, done, journals)
	a.recallAnswers(done)
	if err == nil {
		err = s.answerBatch(ctx, b, a, done, journals, log)
	}
	for _, j := range journals {
		err = errors.Join(err, j.Close())
	}
	if s.ctx.Err() != nil {
		return // it goes on where it is, next time
	}
	now := time.Now()
	var wrong wrongFile
	switch {
	case err == nil:
		b.setStatus(completed, now)
	case errors.Is(err, errExpired):
		b.setStatus(expired, now)
	case errors.Is(err, errCancelled):
		b.setStatus(cancelled, now)
	case errors.As(err, &wrong):
		b.fail(now, wrong...)
	default:
		log.Warn("a batch ends early", zap.Error(err))
		b.fail(now, lineError{Code: "batch_failed", Message: "the batch ended early and keeps its answers: " + errorReason(err)})
	}
	b.Counts = a.currentCounts()
	s.finish(b, a.owner, log)
}

// errorReason is an error in words for a batch's owner, whom the server's paths do not concern.
func errorReason(err error) string {
	var file *os.PathError
	switch {
	case diskFull(err):
		return "the server's disk is full"
	case errors.As(err, &file):
		return file.Err.Error()
	}
	return err.Error()
}

func (s *Service) openJournals(b *batchRecord, done batch.Answered, journals map[bool]*runner.Journal) error {
	for ok, id := range map[bool]string{true: b.Output, false: b.Refused} {
		j, err := runner.OpenJournal(s.store.path(id), done)
		if err != nil {
			return err
		}
		journals[ok] = j
	}
	return nil
}

// wrongFile is what is wrong with an input file.
type wrongFile []lineError

func (wrongFile) Error() string { return "invalid input file" }

func wrongLines(list []batch.LineError) (w wrongFile) {
	for _, e := range list {
		next := lineError{Code: e.Code, Message: e.Message}
		if e.Line > 0 {
			next.Line = &e.Line
		}
		if e.Param != "" {
			next.Param = &e.Param
		}
		w = append(w, next)
	}
	return w
}

// answerBatch checks the input file and answers its lines.
func (s *Service) answerBatch(ctx context.Context, b *batchRecord, a *active, done batch.Answered, journals map[bool]*runner.Journal, log *zap.Logger) error {
	if b.Status == cancelling {
		return errCancelled
	}
	ask, ok := s.cfg.Ask(a.owner)
	if !ok {
		return errors.New("the API key that created it was removed from the server")
	}
	input, err := os.Open(s.store.path(b.InputFileID))
	if err != nil {
		return err
	}
	defer input.Close()
	rules := s.cfg.Rules
	rules.Endpoint = b.Endpoint
	totals, wrong, err := batch.Check(ended{ctx, input}, rules, s.cfg.MaxLines, done)
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		return wrongLines(wrong)
	}
	a.mu.Lock()
	a.counts = counts{totals.Lines, totals.Answered - totals.Failed, totals.Failed}
	b.Counts = a.counts
	a.mu.Unlock()
	if b.Status == validating {
		if err := s.changeStatus(a.owner, b, inProgress); err != nil {
			return err
		}
	}
	log.Info("a batch runs", zap.Int("lines", totals.Lines), zap.Int("answered_before", totals.Answered))
	if _, err := input.Seek(0, 0); err != nil {
		return err
	}
	window, stop := context.WithDeadline(context.Background(), time.Unix(b.ExpiresAt, 0))
	defer stop()
	run := &runner.Run{
		Input: input, Rules: rules, Done: done, Room: s.cfg.Room, Ask: ask, Expired: window.Done(),
		Late: func(l *batch.Line) []byte {
			return l.Unanswered("batch_expired", "This request could not be executed before the completion window expired.")
		},
		Keep: func(_ *batch.Line, answer []byte, ok bool) error {
			if err := s.space.takeBytes(a.owner, int64(len(answer))); err != nil {
				return err
			}
			if err := journals[ok].Append(answer); err != nil {
				s.space.giveBytes(a.owner, int64(len(answer)))
				return err
			}
			a.addAnswer(ok)
			return nil
		},
	}
	if err := run.Do(ctx); err != nil {
		return err
	}
	if window.Err() != nil { // by the time that passed: a wall clock that is set ends no batch that runs
		return errExpired
	}
	return nil
}

// ended is a file that cannot be read any more when ctx has ended.
type ended struct {
	ctx context.Context
	*os.File
}

func (e ended) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	return e.File.Read(p)
}

// changeStatus brings a batch that runs into a state, unless its owner has cancelled it.
func (s *Service) changeStatus(owner string, b *batchRecord, status string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.db.Update(func(tx *bolt.Tx) error {
		stored, err := getRecord[batchRecord](tx, batchBucket, owner, b.ID)
		if err != nil {
			return err
		}
		if stored.Status == cancelling {
			return errCancelled
		}
		b.setStatus(status, time.Now())
		return putRecord(tx, batchBucket, owner, b.ID, b)
	})
}

// finish records how a batch has ended, once the disk takes it, and makes files of its answers.
func (s *Service) finish(b *batchRecord, owner string, log *zap.Logger) {
	for {
		err := s.recordEnd(b, owner)
		if err == nil {
			break
		}
		log.Error("the end of a batch cannot be recorded, and is tried again", zap.Error(err))
		select {
		case <-time.After(time.Second):
		case <-s.ctx.Done():
			return
		}
	}
	log.Info("a batch has ended", zap.String("status", b.Status), zap.Int("completed", b.Counts.Completed), zap.Int("failed", b.Counts.Failed))
	if err := s.deleteHidden(owner, b.InputFileID); err != nil {
		log.Error("a deleted file is not removed yet", zap.Error(err))
	}
}

func (s *Service) recordEnd(b *batchRecord, owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.store.db.Update(func(tx *bolt.Tx) error {
		if stored, err := getRecord[batchRecord](tx, batchBucket, owner, b.ID); err == nil {
			b.CancellingAt = stored.CancellingAt
		}
		var err error
		if b.OutputFileID, err = s.keepFile(tx, owner, b, b.Output, "output"); err != nil {
			return err
		}
		if b.ErrorFileID, err = s.keepFile(tx, owner, b, b.Refused, "error"); err != nil {
			return err
		}
		return putRecord(tx, batchBucket, owner, b.ID, b)
	})
	if err != nil {
		return err
	}
	delete(s.active, b.ID)
	for _, id := range []*string{b.OutputFileID, b.ErrorFileID} {
		if id != nil {
			s.count(owner, fileCost)
		}
	}
	return nil
}

// keepFile makes a file of answers, if there are any.
func (s *Service) keepFile(tx *bolt.Tx, owner string, b *batchRecord, id, what string) (*string, error) {
	info, err := os.Stat(s.store.path(id))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() == 0:
		return nil, s.store.remove(id)
	}
	f := fileRecord{file: file{
		ID: id, Object: "file", Bytes: info.Size(), CreatedAt: time.Now().Unix(), Filename: b.ID + "_" + what + ".jsonl", Purpose: "batch_output", Status: "processed",
	}}
	if b.KeepsFor > 0 {
		at := f.CreatedAt + b.KeepsFor
		f.ExpiresAt = &at
	}
	return &id, putRecord(tx, fileBucket, owner, id, &f)
}

// deleteHidden removes a batch's input that was deleted while the batch ran.
func (s *Service) deleteHidden(owner, id string) error {
	var f *fileRecord
	err := s.store.db.View(func(tx *bolt.Tx) (err error) {
		f, err = getRecord[fileRecord](tx, fileBucket, owner, id)
		return err
	})
	if err == nil && f.Deleted {
		err = s.deleteFile(owner, id)
	}
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}
