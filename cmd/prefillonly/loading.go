package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"go.uber.org/zap"
	"golang.org/x/term"
)

// quietLoading is how long a model may load before anything is said of it, and loadingEvery how often
// then without a terminal.
const (
	quietLoading = 2 * time.Second
	loadingEvery = 5 * time.Second
)

// loading tells how far the weights are: the scheduler through vitals, and people by a bar on a
// terminal or by lines of the log.
type loading struct {
	v      *vitals
	log    *zap.Logger
	screen io.Writer // nil without a terminal
	now    func() time.Time

	start, told time.Time
	bar         *progressbar.ProgressBar
}

func newLoading(v *vitals, log *zap.Logger) *loading {
	l := &loading{v: v, log: log, now: time.Now}
	if !v.lines && term.IsTerminal(int(os.Stderr.Fd())) {
		l.screen = os.Stderr
	}
	l.start = l.now()
	return l
}

// note is the Progress of a model's Options.
func (l *loading) note(done, total int64) {
	l.v.loaded.Store(done)
	l.v.toLoad.Store(total)
	now := l.now()
	elapsed := now.Sub(l.start)
	if elapsed < quietLoading || total == 0 {
		return
	}
	if l.screen != nil {
		l.draw(done, total)
		return
	}
	if now.Sub(l.told) < loadingEvery {
		return
	}
	l.told = now
	rate := float64(done) / elapsed.Seconds()
	left := time.Duration(float64(total-done) / rate * float64(time.Second))
	l.log.Info("loading", zap.String("read", gigabytes(done)), zap.String("of", gigabytes(total)),
		zap.String("rate", gigabytes(int64(rate))+"/s"), zap.Duration("left", left.Round(time.Second)))
}

// draw shows the bar; the terminal may be gone, loading goes on.
func (l *loading) draw(done, total int64) {
	if l.bar == nil {
		l.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(l.screen), progressbar.OptionSetDescription("loading"),
			progressbar.OptionShowBytes(true), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	_ = l.bar.Set64(done)
}

// end removes the bar. A checkpoint may hold tensors that the model does not need.
func (l *loading) end() {
	l.v.loaded.Store(l.v.toLoad.Load())
	if l.bar != nil {
		_ = l.bar.Finish()
	}
}

// gigabytes is an amount as disks count it.
func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }
