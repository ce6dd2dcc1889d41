package top

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/internal/gauges"
)

// picture is what the screen shows.
type picture struct {
	server  string
	healthy bool
	reason  string       // why not
	view    *gauges.View // nil before the first sample
	trouble string       // why there is no new sample; empty if there is one
}

// Parts of a line may be told from the others by how they look.
type look int

const (
	plain look = iota
	heading
	good
	bad
	faint
)

// span is a part of a line.
type span struct {
	text string
	look look
}

// line is one of the screen.
type line []span

func newTextLine(format string, args ...any) line { return line{{fmt.Sprintf(format, args...), plain}} }

// drawLines draws a picture for a screen of that many columns and rows; 0 rows: as many as it takes.
func (p *picture) drawLines(columns, rows int) []line {
	all := []line{p.title()}
	for _, part := range wrap(cleanText(cmp.Or(p.trouble, p.reason)), columns) {
		all = append(all, line{{part, bad}})
	}
	if p.view != nil {
		all = append(all, p.pool()...)
		all = append(all, nil)
		all = append(all, p.models(columns)...)
		if len(p.view.GPUs) > 0 {
			all = append(all, nil)
			all = append(all, p.gpus()...)
		}
	}
	if rows > 0 && len(all) > rows {
		more := len(all) - rows + 1
		all = append(all[:rows-1], line{{fmt.Sprintf("%d more lines; a higher screen shows them", more), faint}})
	}
	for i := range all {
		all[i] = cutLine(all[i], columns)
	}
	return all
}

func (p *picture) title() line {
	l := line{{"prefillonly top", heading}, {"  " + cleanText(p.server) + "  ", plain}}
	switch {
	case p.view == nil:
		return l
	case p.trouble != "":
		return append(l, span{"as of " + p.view.At.Format(time.TimeOnly), bad})
	case p.healthy:
		l = append(l, span{"healthy", good})
	default:
		l = append(l, span{"not healthy", bad})
	}
	over := "last " + formatBrief(p.view.Span)
	if p.view.Whole {
		over = "since start, " + formatBrief(p.view.Span)
	}
	return append(l, span{"  " + p.view.At.Format(time.TimeOnly) + "  " + over, faint})
}

// pool is how all models together do.
func (p *picture) pool() []line {
	v, prompt, computed, generated := &p.view.Pool, 0.0, 0.0, 0.0
	running, waiting, passes := 0.0, 0.0, 0.0
	for i := range p.view.Models {
		m := &p.view.Models[i]
		prompt, computed, generated = prompt+m.Prompt, computed+m.Computed, generated+m.Generated
		running, waiting, passes = running+m.Running, waiting+m.Waiting, passes+m.Passes
	}
	lost := span{fmt.Sprintf("  executors lost %s", formatShort(v.ExecutorsLost)), plain}
	if v.ExecutorsLost > 0 {
		lost.look = bad
	}
	return []line{
		newTextLine("requests/s  answered %-7s failed %-7s refused %-7s connections %s", formatShort(v.Answered), formatShort(v.Failed), formatShort(v.Refused), formatShort(v.Connections)),
		newTextLine("jobs        running  %-7s waiting %-6s open    %s", formatShort(running), formatShort(waiting), formatShort(v.OpenJobs)),
		append(newTextLine("passes/s    run      %-7s paused %-7s nested  %-7s", formatShort(passes), formatShort(v.Preempted), formatShort(v.Nested)), lost),
		newTextLine("tokens/s    prompt   %-7s computed %-5s generated %s", formatShort(prompt), formatShort(computed), formatShort(generated)),
		newTextLine("weights     used     %-7s of %s", formatBytes(v.WeightBytes), formatBytes(v.WeightLimit)),
	}
}

// column is one of a table: wide ones are shown where the screen has room.
type column struct {
	title string
	width int // negative: flush left
	value func(*gauges.Model) string
}

var modelColumns = []column{
	{"STATE", -8, func(m *gauges.Model) string { return m.State }},
	{"RUN", 4, func(m *gauges.Model) string { return formatShort(m.Running) }},
	{"WAIT", 5, func(m *gauges.Model) string { return formatShort(m.Waiting) }},
	{"REQ/S", 6, func(m *gauges.Model) string { return formatShort(m.Answered) }},
	{"P50", 6, func(m *gauges.Model) string { return formatSeconds(m.Latency.Quantile(.5)) }},
	{"P99", 6, func(m *gauges.Model) string { return formatSeconds(m.Latency.Quantile(.99)) }},
	{"QUEUE99", 7, func(m *gauges.Model) string { return formatSeconds(m.Queue.Quantile(.99)) }},
	{"HIT", 4, func(m *gauges.Model) string { return formatShare(m.Hit, m.Queried) }},
	{"CACHE", 5, func(m *gauges.Model) string { return formatShare(m.CacheUsed, 1) }},
	// from here on for wider screens
	{"EXEC", 4, func(m *gauges.Model) string { return formatShort(m.Executors) }},
	{"WEIGHTS", 8, func(m *gauges.Model) string { return formatBytes(m.WeightBytes) }},
	{"TTFT99", 6, func(m *gauges.Model) string { return formatSeconds(m.FirstToken.Quantile(.99)) }},
	{"PROMPT/S", 8, func(m *gauges.Model) string { return formatShort(m.Prompt) }},
	{"COMP/S", 7, func(m *gauges.Model) string { return formatShort(m.Computed) }},
	{"GEN/S", 6, func(m *gauges.Model) string { return formatShort(m.Generated) }},
	{"PASS/S", 6, func(m *gauges.Model) string { return formatShort(m.Passes) }},
	{"PER PASS", 8, func(m *gauges.Model) string { return formatShort(m.Pass.Mean()) }},
	{"HOST", 4, func(m *gauges.Model) string { return formatShare(m.HostHit, m.HostQueried) }},
	{"FRAMES/S", 8, func(m *gauges.Model) string { return formatShort(m.Frames) }},
	{"LATE/S", 6, func(m *gauges.Model) string { return formatShort(m.LateFrames) }},
}

// nameWidth is what names of models have at least.
const nameWidth = 18

// models is a table of them, with as many columns as there is room for.
func (p *picture) models(columns int) []line {
	longest, width, shown := nameWidth, 0, 0
	for i := range p.view.Models {
		longest = max(longest, textWidth(cleanText(p.view.Models[i].Name)))
	}
	for shown < len(modelColumns) && nameWidth+width+1+abs(modelColumns[shown].width) <= columns {
		width += 1 + abs(modelColumns[shown].width)
		shown++
	}
	name := min(longest, max(nameWidth, columns-width))
	head := padText("MODEL", -name)
	for _, c := range modelColumns[:shown] {
		head += " " + padText(c.title, c.width)
	}
	all := []line{{{head, heading}}}
	for i := range p.view.Models {
		m := &p.view.Models[i]
		row := line{{padText(cleanText(m.Name), -name), plain}}
		for _, c := range modelColumns[:shown] {
			s := span{" " + padText(cleanText(c.value(m)), c.width), plain}
			if c.title == "STATE" && m.State == "failed" {
				s.look = bad
			}
			row = append(row, s)
		}
		all = append(all, row)
	}
	return all
}

func (p *picture) gpus() []line {
	all := []line{{{fmt.Sprintf("%-12s %-22s %5s %18s %6s %6s", "EXECUTOR", "GPU", "USE", "MEMORY", "TEMP", "POWER"), heading}}}
	for i := range p.view.GPUs {
		g := &p.view.GPUs[i]
		memory := "-"
		if g.Used >= 0 && g.Free >= 0 {
			memory = formatBytes(g.Used*(1<<20)) + " of " + formatBytes((g.Used+g.Free)*(1<<20))
		}
		all = append(all, newTextLine("%s %s %5s %18s %6s %6s", padText(cleanText(g.Executor), -12), padText(cleanText(g.Name), -22), formatKnown(g.Use, "%"), memory, formatKnown(g.Temperature, " C"), formatKnown(g.Power, " W")))
	}
	return all
}

func formatKnown(v float64, unit string) string {
	if v < 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%s", v, unit)
}

// formatShort is a number in at most six columns.
func formatShort(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v == math.Trunc(v) && v < 1e5:
		return fmt.Sprintf("%.0f", v)
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 999.5:
		return fmt.Sprintf("%.1f", v)
	case v < 99950:
		return fmt.Sprintf("%.0f", v)
	case v < 999.5e3:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v < 999.5e6:
		return fmt.Sprintf("%.1fM", v/1e6)
	}
	return fmt.Sprintf("%.3g", v)
}

// formatSeconds is a time in at most six columns.
func formatSeconds(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v < 0.0995:
		return fmt.Sprintf("%.1fms", v*1e3)
	case v < 0.9995:
		return fmt.Sprintf("%.0fms", v*1e3)
	case v < 99.95:
		return fmt.Sprintf("%.1fs", v)
	}
	return fmt.Sprintf("%.0fs", v)
}

func formatShare(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*part/whole)
}

// formatBytes is an amount of memory in at most eight columns.
func formatBytes(v float64) string {
	unit := 0
	for v >= 1000 && unit < 4 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.3g %s", v, [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}

// formatBrief is a duration in its two largest units.
func formatBrief(d time.Duration) string {
	d = max(d, 0)
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	for _, u := range []struct {
		of         time.Duration
		large, low string
	}{{24 * time.Hour, "d", "h"}, {time.Hour, "h", "min"}, {time.Minute, "min", "s"}} {
		part := map[string]time.Duration{"h": time.Hour, "min": time.Minute, "s": time.Second}[u.low]
		if d >= u.of {
			return strings.TrimSpace(fmt.Sprintf("%d %s %d %s", d/u.of, u.large, d%u.of/part, u.low))
		}
	}
	return ""
}

func abs(n int) int { return max(n, -n) }
