package load

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"
)

// recent is how many of the last answers the live percentiles are of.
const recent = 1000

// Progress draws a bar with the rate of answers and the percentiles of the recent latencies.
type Progress struct {
	bar       *progressbar.ProgressBar
	latencies []time.Duration // of the last answers, in a ring
	done      int
	failed    int
	start     time.Time
	drawn     time.Time
}

// NewProgress starts a bar of total requests on w, which is a terminal.
func NewProgress(w io.Writer, total int) *Progress {
	return &Progress{
		start: time.Now(),
		bar: progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth()),
	}
}

// Observe counts one answer; it is given to Client.Observing.
func (p *Progress) Observe(r Record) {
	if len(p.latencies) < recent {
		p.latencies = append(p.latencies, 0)
	}
	p.latencies[p.done%recent] = r.Latency()
	p.done++
	if r.Err != "" {
		p.failed++
	}
	now := time.Now()
	if now.Sub(p.drawn) > 200*time.Millisecond {
		p.drawn = now
		p.bar.Describe(p.formatRates(now.Sub(p.start)))
	}
	_ = p.bar.Add(1) // the terminal may be gone; the run goes on
}

func (p *Progress) formatRates(elapsed time.Duration) string {
	sorted := slices.Sorted(slices.Values(p.latencies))
	text := fmt.Sprintf("%.1f req/s  P50 %s  P99 %s", float64(p.done)/elapsed.Seconds(),
		Percentile(sorted, 50).Round(time.Millisecond), Percentile(sorted, 99).Round(time.Millisecond))
	if p.failed > 0 {
		text += fmt.Sprintf("  %d failed", p.failed)
	}
	return text
}

// Close removes the bar.
func (p *Progress) Close() { _ = p.bar.Finish() }
