package blob

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// BenchmarkThereAndBack puts a blob, reads it as another process would, and releases it: on one host, over TLS on
// one host, and, beside them in the same run, copied there and back in one process. Each is told by its fastest
// time, since others use the machine. The sizes are a JPEG, a frame of 416x416 in bytes, and one of 1080p in bytes.
func BenchmarkThereAndBack(b *testing.B) {
	dir := b.TempDir()
	host := newStore(b, Config{Limit: 64 << 20, Dir: dir})
	net := newStore(b, Config{Limit: 64 << 20, Listen: "127.0.0.1:0"})
	r := newReader(b, dir)
	for _, n := range []int{300_000, 519_168, 6_220_800} {
		from, by, to := make([]byte, n), make([]byte, n), make([]byte, n)
		through := func(s *Store) func() {
			return func() {
				name := put(b, s, from)
				if err := r.Read(name, to); err != nil {
					b.Fatal(err)
				}
				s.Release(name)
			}
		}
		ways := []struct {
			name string
			pass func()
		}{{"copies", func() { copy(by, from); copy(to, by) }}, {"host", through(host)}, {"tls", through(net)}}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			best := []time.Duration{math.MaxInt64, math.MaxInt64, math.MaxInt64}
			for b.Loop() {
				for i, w := range ways {
					start := time.Now()
					w.pass()
					best[i] = min(best[i], time.Since(start))
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, w := range ways {
				b.ReportMetric(float64(best[i].Nanoseconds())/1000, w.name+"-us")
				b.ReportMetric(float64(n)/float64(best[i].Nanoseconds()), w.name+"-GB/s")
			}
		})
	}
}
