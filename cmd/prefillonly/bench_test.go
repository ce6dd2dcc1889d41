package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkNull measures everything but the model: real processes, and a client on the same cores.
// Prompts are 32 token ids, or text of 120 tokens. One connection shows what is added to an answer, back
// to back and with pauses in which all processes fall asleep; 64 connections show the rate.
func BenchmarkNull(b *testing.B) {
	p := serve(b, nil, "--device", "null", "--no-access-log")
	ids := make([]string, 32)
	for i := range ids {
		ids[i] = fmt.Sprint(100 + i)
	}
	prompts := map[string]string{
		"ids":  "[" + strings.Join(ids, ",") + "]",
		"text": strconv.Quote(strings.Repeat("the user likes a post about sailing and finance tonight, ", 8) + "and tides"),
	}
	for _, c := range []struct {
		prompt      string
		connections int
		pause       time.Duration
	}{{"ids", 1, 0}, {"text", 1, 0}, {"text", 1, 10 * time.Millisecond}, {"ids", 64, 0}} {
		b.Run(fmt.Sprintf("%s/connections=%d/pause=%v", c.prompt, c.connections, c.pause), func(b *testing.B) {
			body := `{"model":"prefillonly-demo","prompt":` + prompts[c.prompt] + `,"max_tokens":1,"logprobs":5}`
			took := flood(b, p.base+"/v1/completions", body, c.connections, c.pause)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-us")
		})
	}
}

// flood sends b.N requests, with a pause before each of a connection's, and returns what they took, sorted.
func flood(b *testing.B, url, body string, connections int, pause time.Duration) []time.Duration {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range connections {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				time.Sleep(pause)
				start := time.Now()
				response, err := client.Post(url, "application/json", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					b.Errorf("status %d", response.StatusCode)
				}
				took[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}
