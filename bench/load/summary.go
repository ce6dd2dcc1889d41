package load

import (
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// Summary is what a run's records say together. Latencies are of the requests answered with 200.
type Summary struct {
	Requests, Failed int
	Span             time.Duration   // from the first request's due time to the last answer
	Throughput       float64         // answered requests a second of Span
	TokenThroughput  float64         // their prompt tokens a second
	Cached           float64         // share of their prompt tokens found in the prefix cache
	Mean             time.Duration   // latency
	Latency          []time.Duration // sorted; see Percentile
	FirstByte        []time.Duration // from due time, sorted
	Late             []time.Duration // how long after its due time each request was sent, sorted
}

// Summarize reads a run's records.
func Summarize(records []Record) Summary {
	s := Summary{Requests: len(records)}
	if len(records) == 0 {
		return s
	}
	var last, sum time.Duration
	var tokens, cached int
	for _, r := range records {
		last = max(last, r.Done)
		s.Late = append(s.Late, r.Sent-r.Scheduled)
		if r.Err != "" {
			s.Failed++
			continue
		}
		s.Latency = append(s.Latency, r.Latency())
		s.FirstByte = append(s.FirstByte, r.FirstByte-r.Scheduled)
		sum += r.Latency()
		tokens += r.Tokens
		cached += r.Cached
	}
	for _, d := range [][]time.Duration{s.Late, s.Latency, s.FirstByte} {
		slices.Sort(d)
	}
	s.Span = last
	if n := len(s.Latency); n > 0 && s.Span > 0 {
		s.Mean = sum / time.Duration(n)
		s.Throughput = float64(n) / s.Span.Seconds()
		s.TokenThroughput = float64(tokens) / s.Span.Seconds()
	}
	if tokens > 0 {
		s.Cached = float64(cached) / float64(tokens)
	}
	return s
}

// Percentile returns the smallest of the sorted samples that at least p percent of them do not
// exceed (nearest rank); 0 of no samples.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// WriteCSV writes one line for each request, times in seconds from the start of the run.
func WriteCSV(w io.Writer, records []Record) error {
	out := csv.NewWriter(w)
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 6, 64) }
	err := out.Write([]string{"request", "user", "scheduled_s", "sent_s", "first_byte_s", "done_s", "latency_s", "status", "prompt_tokens", "cached_tokens", "error", "model"})
	for _, r := range records {
		if err != nil {
			return err
		}
		err = out.Write([]string{
			strconv.Itoa(r.Index), r.User, seconds(r.Scheduled), seconds(r.Sent), seconds(r.FirstByte), seconds(r.Done), seconds(r.Latency()),
			strconv.Itoa(r.Status), strconv.Itoa(r.Tokens), strconv.Itoa(r.Cached), r.Err, r.Model,
		})
	}
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}
