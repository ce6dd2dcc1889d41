// Package bench runs the paper's experiments: sweeps of the request rate over HTTP, and its tables
// and figures in the simulator. Each writes CSV and draws figures.
package bench

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/bench/load"
)

// Measure sends requests to the server under test and returns what became of them.
type Measure func(context.Context, []load.Request) ([]load.Record, error)

// Multiples of the saturation at which the paper measures latency (section 5.4.2).
var Multiples = []float64{0.25, 0.5, 1, 2, 3, 4}

// Sweep measures latency over the request rate.
type Sweep struct {
	Label      string // of the server
	Workload   string
	Saturation float64                                    // requests a second; 0: measured first
	Multiples  []float64                                  // of the saturation, to send at, +Inf for all at once; none: the paper's
	Requests   func(rate float64) ([]load.Request, error) // the workload at a rate
}

// Point is one run of a sweep, and one line of its CSV.
type Point struct {
	Label, Workload string
	Rate            float64 // requests a second sent; +Inf: all at once
	Throughput      float64 // requests a second answered
	Mean, P50, P99  time.Duration
	Cached          float64 // share of prompt tokens found in the prefix cache
	Requests        int
	Failed          int
}

// Run measures the saturation if it is not given and then every multiple of it, one line on
// progress for each. Every run gets prompts of its own, so that none finds the others' prefixes.
// On an error the points so far are returned with it.
func (s Sweep) Run(ctx context.Context, measure Measure, progress io.Writer) ([]Point, error) {
	var points []Point
	rates := []float64{}
	if s.Saturation == 0 {
		rates = append(rates, math.Inf(1))
	}
	if rates = append(rates, s.Multiples...); len(s.Multiples) == 0 {
		rates = append(rates, Multiples...)
	}
	x := s.Saturation
	for run, multiple := range rates {
		rate := multiple * x
		if math.IsInf(multiple, 1) {
			rate = multiple
		}
		requests, err := s.Requests(rate)
		if err != nil {
			return points, err
		}
		renamePromptParts(requests, uint64(run))
		records, err := measure(ctx, requests)
		if err != nil {
			return points, err
		}
		p := s.newPoint(rate, load.Summarize(records))
		if p.Failed == p.Requests {
			return points, fmt.Errorf("at %.3g requests/s all %d requests failed: %s", rate, p.Failed, records[0].Err)
		}
		if x == 0 { // the first run, with all at once
			x = p.Throughput
		}
		points = append(points, p)
		fmt.Fprintf(progress, "%8.3g req/s sent %8.3g answered   mean %-9s P50 %-9s P99 %-9s cached %3.0f %%  failed %d\n",
			p.Rate, p.Throughput, roundDuration(p.Mean), roundDuration(p.P50), roundDuration(p.P99), 100*p.Cached, p.Failed)
	}
	return points, nil
}

func (s Sweep) newPoint(rate float64, sum load.Summary) Point {
	return Point{
		Label: s.Label, Workload: s.Workload, Rate: rate, Throughput: sum.Throughput, Mean: sum.Mean,
		P50: load.Percentile(sum.Latency, 50), P99: load.Percentile(sum.Latency, 99),
		Cached: sum.Cached, Requests: sum.Requests, Failed: sum.Failed,
	}
}

// renamePromptParts renames the synthetic prompts' parts.
func renamePromptParts(requests []load.Request, run uint64) {
	for i := range requests {
		s := &requests[i].Prompt.Shape
		s.Prefix += run
		s.Suffix += run
	}
}

func roundDuration(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// Report is a run's summary as text.
func Report(s load.Summary) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-28s "+format+"\n", append([]any{name}, args...)...)
	}
	line("requests", "%d in %s, %d failed", s.Requests, roundDuration(s.Span), s.Failed)
	line("request throughput", "%.3f req/s", s.Throughput)
	line("prompt token throughput", "%.0f tokens/s, %.1f %% from the prefix cache", s.TokenThroughput, 100*s.Cached)
	for _, part := range []struct {
		name   string
		sorted []time.Duration
	}{{"latency from due time", s.Latency}, {"first byte from due time", s.FirstByte}, {"sent after due time", s.Late}} {
		p := func(percent float64) time.Duration { return roundDuration(load.Percentile(part.sorted, percent)) }
		line(part.name, "P50 %s  P90 %s  P99 %s  max %s", p(50), p(90), p(99), p(100))
	}
	line("mean latency", "%s", roundDuration(s.Mean))
	if late := load.Percentile(s.Late, 99); late > s.Mean/10 && late > 50*time.Millisecond {
		line("warning", "the client itself was late by %s (P99): it needs more CPU, or a lower rate", roundDuration(late))
	}
	return b.String()
}

var pointHeader = []string{"label", "workload", "rate", "throughput", "mean_s", "p50_s", "p99_s", "cached", "requests", "failed"}

// WritePoints writes a sweep as CSV.
func WritePoints(w io.Writer, points []Point) error {
	out := csv.NewWriter(w)
	rows := [][]string{pointHeader}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 7, 64) }
	for _, p := range points {
		rows = append(rows, []string{
			p.Label, p.Workload, number(p.Rate), number(p.Throughput), number(p.Mean.Seconds()), number(p.P50.Seconds()),
			number(p.P99.Seconds()), number(p.Cached), strconv.Itoa(p.Requests), strconv.Itoa(p.Failed),
		})
	}
	return out.WriteAll(rows)
}

// ReadPoints reads what WritePoints wrote; name is the file's name, for errors.
func ReadPoints(r io.Reader, name string) ([]Point, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != strings.Join(pointHeader, ",") {
		return nil, fmt.Errorf("%s is not a sweep: want %q in its first line", name, strings.Join(pointHeader, ","))
	}
	var points []Point
	for i, row := range rows[1:] {
		var v [8]float64
		for j := range v {
			if v[j], err = strconv.ParseFloat(row[j+2], 64); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %w", name, i+2, pointHeader[j+2], err)
			}
		}
		seconds := func(s float64) time.Duration { return time.Duration(s * 1e9) }
		points = append(points, Point{
			Label: row[0], Workload: row[1], Rate: v[0], Throughput: v[1], Mean: seconds(v[2]), P50: seconds(v[3]), P99: seconds(v[4]),
			Cached: v[5], Requests: int(v[6]), Failed: int(v[7]),
		})
	}
	return points, nil
}
