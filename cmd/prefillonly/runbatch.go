package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/batch"
	"github.com/prefillonly/prefillonly/engine/batch/runner"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/internal/supervise"
)

// partialSuffix is what the name of an answer file ends with until it is whole.
const partialSuffix = ".partial"

// batchFiles are the files of a run.
type batchFiles struct{ input, output string }

// newRunBatchCommand makes `prefillonly run-batch`.
func newRunBatchCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "run-batch -i FILE -o FILE [MODEL...]",
		Short: "Answer the requests of a file",
		Long: `Answers the requests of a file in OpenAI's batch format: a JSON object a line, with custom_id, method, url and body. Url is any
POST path that scores, embeds, completes, reads pictures or hears sound. Answers come in the order in which they are found, each with its custom_id.
They are in FILE.partial until all are there. When the run was stopped or killed, the same command goes on with
it: no line is answered twice. Scheduler and executors run as child processes; with --scheduler-endpoint those of a
running server answer; the lines have the lowest priority there.`,
		Example: `  prefillonly run-batch -i requests.jsonl -o answers.jsonl ./Qwen2.5-0.5B
  prefillonly run-batch -i requests.jsonl -o answers.jsonl --scheduler-endpoint ipc:///run/prefillonly/scheduler.sock ./Qwen2.5-0.5B`,
	}
	var files batchFiles
	command.Flags().StringVarP(&files.input, "input-file", "i", "", "`FILE` of requests, one a line")
	command.Flags().StringVarP(&files.output, "output-file", "o", "", "`FILE` of answers to create")
	return settings.Reconfigured(command, config.Scheduler|config.Executor|config.Lines, func(s settings.Settings, log *zap.Logger) error {
		signal.Reset(syscall.SIGHUP)
		if err := files.check(); err != nil {
			return err
		}
		if s.Endpoint != "" {
			return answerFile(s.Config, files, log)
		}
		return superviseBatch(s.Config, files, log)
	})
}

// check looks at the files before anything is started.
func (b batchFiles) check() error {
	if b.input == "" || b.output == "" {
		return cli.UsageError("give -i FILE, of requests, and -o FILE, of answers")
	}
	input, err := regular.Open(b.input)
	if err != nil {
		return cli.Exit(cli.ExitConfig, fmt.Errorf("-i: %w", err))
	}
	defer input.Close()
	if _, err := os.Lstat(b.output); !errors.Is(err, fs.ErrNotExist) {
		return cli.Exit(cli.ExitConfig, fmt.Errorf("-o: %s is there already; remove it, or give another file", b.output))
	}
	return nil
}

// superviseBatch runs a scheduler and executors, and this command again as their client.
func superviseBatch(cfg *config.Config, files batchFiles, log *zap.Logger) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	failed, remove, err := roles.PrepareAll(cfg, log)
	if err != nil {
		return err
	}
	defer remove()
	modellist.Report(cfg, failed, log)
	if err := roles.NameGPUs(cfg, true, log); err != nil {
		return err
	}
	if err := modellist.CheckHosted(cfg); err != nil {
		return err
	}
	if err := modellist.Write(cfg); err != nil {
		return err
	}
	cfg.Endpoint = "ipc://" + filepath.Join(cfg.RuntimeDir, "scheduler.sock")
	cfg.Frontends = 0
	g := roles.Group(cfg, nil, log)
	g.Name, g.Optional = modellist.Names(cfg), nil
	worker := roles.LinesChild(cfg, "run-batch", []string{"-i", files.input, "-o", files.output}, log)
	g.Frontends = []*supervise.Child{worker}
	err = g.Run(signals)
	var child *supervise.ExitError
	if errors.As(err, &child) && child.Name == worker.Name && child.Code == 0 {
		return nil
	}
	return err
}

// answerFile answers the file's lines.
func answerFile(cfg *config.Config, files batchFiles, log *zap.Logger) error {
	return roles.ServeLines(cfg, roles.DefaultName("run-batch"), log, func(ctx context.Context, l *roles.Lines) error {
		if err := files.answerLines(ctx, l, log); err != nil {
			return cli.Exit(cli.ExitConfig, err)
		}
		return nil
	})
}

// answerLines keeps answers in the partial file, which becomes the output file when it is whole.
func (b batchFiles) answerLines(ctx context.Context, l *roles.Lines, log *zap.Logger) error {
	input, err := regular.Open(b.input)
	if err != nil {
		return err
	}
	defer input.Close()
	done := batch.Answered{}
	journal, err := runner.OpenJournal(b.output+partialSuffix, done)
	if err != nil {
		return fmt.Errorf("%w; move that file away to begin anew", err)
	}
	err = b.run(ctx, l, input, journal, done, log)
	if err = errors.Join(err, journal.Close()); err != nil {
		return err
	}
	return os.Rename(b.output+partialSuffix, b.output)
}

func (b batchFiles) run(ctx context.Context, l *roles.Lines, input *os.File, journal *runner.Journal, done batch.Answered, log *zap.Logger) error {
	totals, wrong, err := batch.Check(input, l.Rules, math.MaxInt, done)
	if err != nil {
		return fmt.Errorf("%s and %s do not belong together: %w; move the second away to begin anew", b.input, b.output+partialSuffix, err)
	}
	if len(wrong) > 0 {
		return wrongLines(b.input, wrong)
	}
	if _, err := input.Seek(0, io.SeekStart); err != nil {
		return err
	}
	p := newProgress(totals, log)
	defer p.stop()
	run := &runner.Run{
		Input: input, Rules: l.Rules, Done: done, Room: l.Room, Ask: l.Ask(apikey.Owner{}), Waits: p.noteWait,
		Keep: func(_ *batch.Line, answer []byte, ok bool) error {
			if err := journal.Append(answer); err != nil {
				return err
			}
			p.addAnswer(ok)
			return nil
		},
	}
	err = run.Do(ctx)
	if err == nil {
		p.finish(b.output)
		return nil
	}
	if ctx.Err() != nil {
		err = errors.New("stopped")
	}
	return fmt.Errorf("%w with %d of %d lines answered; those are kept, and the same command goes on", err, p.answered.Load(), totals.Lines)
}

// wrongLines is the error of a file with lines that are wrong, the first of which it names.
func wrongLines(path string, wrong []batch.LineError) error {
	const most = 10
	var list []error
	for i := range wrong[:min(len(wrong), most)] {
		list = append(list, fmt.Errorf("%s: %w", path, &wrong[i]))
	}
	if more := len(wrong) - most; more > 0 {
		list = append(list, fmt.Errorf("and %d lines more", more))
	}
	return errors.Join(slices.Concat(list, []error{errors.New("nothing was sent; correct the file")})...)
}

// progress tells how far a run is: by a bar on a terminal, else by lines of the log.
type progress struct {
	total    int
	begun    time.Time
	before   int // lines that were answered before
	bar      *progressbar.ProgressBar
	log      *zap.Logger
	answered atomic.Int64
	failed   atomic.Int64
	reason   atomic.Pointer[string] // of lines that wait
	end      chan struct{}
	ended    chan struct{}
}

// progressEvery is the time between two lines of the log.
const progressEvery = 10 * time.Second

func newProgress(t batch.Totals, log *zap.Logger) *progress {
	p := &progress{total: t.Lines, begun: time.Now(), before: t.Answered, log: log, end: make(chan struct{}), ended: make(chan struct{})}
	p.answered.Store(int64(t.Answered))
	p.failed.Store(int64(t.Failed))
	if term.IsTerminal(int(os.Stderr.Fd())) {
		p.bar = progressbar.NewOptions(t.Lines, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("answering"),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("lines"), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond))
		_ = p.bar.Set(t.Answered)
	}
	log.Info("answering", zap.Int("lines", t.Lines), zap.Int("answered_before", t.Answered))
	go p.tell() // ended by stop
	return p
}

func (p *progress) addAnswer(ok bool) {
	p.answered.Add(1)
	if !ok {
		p.failed.Add(1)
	}
	if p.bar != nil {
		_ = p.bar.Add(1)
	}
}

// noteWait notes why a line waits.
func (p *progress) noteWait(r *batch.Reply) {
	reason := fmt.Sprintf("%d %.300s", r.Status, r.Body)
	p.reason.Store(&reason)
}

func (p *progress) tell() {
	defer close(p.ended)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.end:
			return
		case <-tick.C:
		}
		if reason := p.reason.Swap(nil); reason != nil {
			p.log.Warn("lines wait and are sent again", zap.String("reason", *reason))
		}
		if p.bar == nil {
			p.log.Info("progress", p.fields()...)
		}
	}
}

func (p *progress) fields() []zap.Field {
	now := float64(p.answered.Load()-int64(p.before)) / time.Since(p.begun).Seconds()
	return []zap.Field{
		zap.Int64("answered", p.answered.Load()), zap.Int("lines", p.total), zap.Int64("failed", p.failed.Load()), zap.Float64("lines_per_second", math.Round(now*10)/10),
	}
}

func (p *progress) finish(output string) {
	p.log.Info("done", append(p.fields(), zap.String("answers", output))...)
}

func (p *progress) stop() {
	close(p.end)
	<-p.ended
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
