package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkNull measures everything but the model: real processes, requests of 32 token ids from a
// client on the same cores. One connection shows what is added to an idle server's answer, 64 the
// rate.
func BenchmarkNull(b *testing.B) {
	p := serve(b, nil, "--device", "null")
	ids := make([]string, 32)
	for i := range ids {
		ids[i] = fmt.Sprint(100 + i)
	}
	body := `{"model":"prefillonly-demo","prompt":[` + strings.Join(ids, ",") + `],"max_tokens":1,"logprobs":5}`
	for _, connections := range []int{1, 64} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
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
						start := time.Now()
						response, err := client.Post(p.base+"/v1/completions", "application/json", strings.NewReader(body))
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
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-us")
		})
	}
}
