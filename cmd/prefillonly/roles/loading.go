package roles

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"go.uber.org/zap"
)

// quietLoading is how long a model may load before anything is said of it, and loadingEvery how often
// then without a terminal.
const (
	quietLoading = 2 * time.Second
	loadingEvery = 5 * time.Second
)

// Loading takes in how many bytes of a model's weights are read, and how many there are in all (0 where that is
// not known): for the scheduler, and for people by a bar on a terminal or by lines of the log. Models are
// loaded one after the other. One goroutine at a time may call it.
func (v *Vitals) Loading(model string, done, total int64) {
	now := v.now()
	if l := v.loading; l == nil || l.model != model || done < l.done {
		v.endLoading()
		v.loading = &loading{v: v, model: model, start: now, from: done}
	}
	v.loaded.Store(done)
	v.toLoad.Store(total)
	v.loading.noteProgress(now, done, total)
	if done >= total && total > 0 {
		v.endLoading()
	}
}

// endLoading ends what is told of a load, the last part of which may never come.
func (v *Vitals) endLoading() {
	if v.loading == nil {
		return
	}
	v.loaded.Store(v.toLoad.Load())
	if bar := v.loading.bar; bar != nil {
		_ = bar.Finish()
	}
	v.loading = nil
}

// loading is a model on its way.
type loading struct {
	v           *Vitals
	model       string
	from, done  int64 // bytes; others may be there from before
	start, told time.Time
	bar         *progressbar.ProgressBar
}

func (l *loading) noteProgress(now time.Time, done, total int64) {
	l.done = done
	elapsed := now.Sub(l.start)
	if elapsed < quietLoading || total == 0 {
		return
	}
	if l.v.screen != nil {
		l.drawBar(done, total)
		return
	}
	if now.Sub(l.told) < loadingEvery {
		return
	}
	l.told = now
	rate := max(1, float64(done-l.from)/elapsed.Seconds())
	left := time.Duration(float64(total-done) / rate * float64(time.Second))
	l.v.log.Info("loading", zap.String("model", l.model), zap.String("read", formatBytes(done)), zap.String("of", formatBytes(total)),
		zap.String("rate", formatBytes(int64(rate))+"/s"), zap.Duration("left", left.Round(time.Second)))
}

// drawBar shows the bar; the terminal may be gone, loading goes on.
func (l *loading) drawBar(done, total int64) {
	if l.bar == nil {
		l.bar = newBar(l.v.screen, l.model, total)
	}
	_ = l.bar.Set64(done)
}

func newBar(screen io.Writer, model string, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, progressbar.OptionSetWriter(screen), progressbar.OptionSetDescription("loading "+model),
		progressbar.OptionShowBytes(true), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(), progressbar.OptionThrottle(100*time.Millisecond))
}

// formatBytes is an amount as disks count it.
func formatBytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }
