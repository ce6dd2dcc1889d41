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

func text(format string, args ...any) line { return line{{fmt.Sprintf(format, args...), plain}} }

// lines draws a picture for a screen of that many columns and rows; 0 rows: as many as it takes.
func (p *picture) lines(columns, rows int) []line {
	all := []line{p.title()}
	for _, part := range wrap(clean(cmp.Or(p.trouble, p.reason)), columns) {
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
		all[i] = cut(all[i], columns)
	}
	return all
}

func (p *picture) title() line {
	l := line{{"prefillonly top", heading}, {"  " + clean(p.server) + "  ", plain}}
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
	over := "last " + brief(p.view.Span)
	if p.view.Whole {
		over = "since start, " + brief(p.view.Span)
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
	lost := span{fmt.Sprintf("  executors lost %s", short(v.ExecutorsLost)), plain}
	if v.ExecutorsLost > 0 {
		lost.look = bad
	}
	return []line{
		text("requests/s  answered %-7s failed %-7s refused %-7s connections %s", short(v.Answered), short(v.Failed), short(v.Refused), short(v.Connections)),
		text("jobs        running  %-7s waiting %-6s open    %s", short(running), short(waiting), short(v.OpenJobs)),
		append(text("passes/s    run      %-7s paused %-7s nested  %-7s", short(passes), short(v.Preempted), short(v.Nested)), lost),
		text("tokens/s    prompt   %-7s computed %-5s generated %s", short(prompt), short(computed), short(generated)),
		text("weights     used     %-7s of %s", bytes(v.WeightBytes), bytes(v.WeightLimit)),
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
	{"RUN", 4, func(m *gauges.Model) string { return short(m.Running) }},
	{"WAIT", 5, func(m *gauges.Model) string { return short(m.Waiting) }},
	{"REQ/S", 6, func(m *gauges.Model) string { return short(m.Answered) }},
	{"P50", 6, func(m *gauges.Model) string { return seconds(m.Latency.Quantile(.5)) }},
	{"P99", 6, func(m *gauges.Model) string { return seconds(m.Latency.Quantile(.99)) }},
	{"QUEUE99", 7, func(m *gauges.Model) string { return seconds(m.Queue.Quantile(.99)) }},
	{"HIT", 4, func(m *gauges.Model) string { return share(m.Hit, m.Queried) }},
	{"CACHE", 5, func(m *gauges.Model) string { return share(m.CacheUsed, 1) }},
	// from here on for wider screens
	{"EXEC", 4, func(m *gauges.Model) string { return short(m.Executors) }},
	{"WEIGHTS", 8, func(m *gauges.Model) string { return bytes(m.WeightBytes) }},
	{"TTFT99", 6, func(m *gauges.Model) string { return seconds(m.FirstToken.Quantile(.99)) }},
	{"PROMPT/S", 8, func(m *gauges.Model) string { return short(m.Prompt) }},
	{"COMP/S", 7, func(m *gauges.Model) string { return short(m.Computed) }},
	{"GEN/S", 6, func(m *gauges.Model) string { return short(m.Generated) }},
	{"PASS/S", 6, func(m *gauges.Model) string { return short(m.Passes) }},
	{"PER PASS", 8, func(m *gauges.Model) string { return short(m.Pass.Mean()) }},
	{"HOST", 4, func(m *gauges.Model) string { return share(m.HostHit, m.HostQueried) }},
	{"FRAMES/S", 8, func(m *gauges.Model) string { return short(m.Frames) }},
	{"LATE/S", 6, func(m *gauges.Model) string { return short(m.LateFrames) }},
}

// nameWidth is what names of models have at least.
const nameWidth = 18

// models is a table of them, with as many columns as there is room for.
func (p *picture) models(columns int) []line {
	longest, width, shown := nameWidth, 0, 0
	for i := range p.view.Models {
		longest = max(longest, width1(clean(p.view.Models[i].Name)))
	}
	for shown < len(modelColumns) && nameWidth+width+1+abs(modelColumns[shown].width) <= columns {
		width += 1 + abs(modelColumns[shown].width)
		shown++
	}
	name := min(longest, max(nameWidth, columns-width))
	head := pad("MODEL", -name)
	for _, c := range modelColumns[:shown] {
		head += " " + pad(c.title, c.width)
	}
	all := []line{{{head, heading}}}
	for i := range p.view.Models {
		m := &p.view.Models[i]
		row := line{{pad(clean(m.Name), -name), plain}}
		for _, c := range modelColumns[:shown] {
			s := span{" " + pad(clean(c.value(m)), c.width), plain}
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
			memory = bytes(g.Used*(1<<20)) + " of " + bytes((g.Used+g.Free)*(1<<20))
		}
		all = append(all, text("%s %s %5s %18s %6s %6s", pad(clean(g.Executor), -12), pad(clean(g.Name), -22), known(g.Use, "%"), memory, known(g.Temperature, " C"), known(g.Power, " W")))
	}
	return all
}

func known(v float64, unit string) string {
	if v < 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%s", v, unit)
}

// short is a number in at most six columns.
func short(v float64) string {
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

// seconds is a time in at most six columns.
func seconds(v float64) string {
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

func share(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*part/whole)
}

// bytes is an amount of memory in at most eight columns.
func bytes(v float64) string {
	unit := 0
	for v >= 1000 && unit < 4 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.3g %s", v, [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}

// brief is a duration in its two largest units.
func brief(d time.Duration) string {
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
