package kvcache

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// spent sums up the time of one kind of step.
type spent struct {
	name string
	sum  time.Duration
	last time.Time
}

func (s *spent) begin() { s.last = time.Now() }
func (s *spent) end()   { s.sum += time.Since(s.last) }
func (s *spent) report(b *testing.B) {
	b.ReportMetric(float64(s.sum.Nanoseconds())/float64(b.N)/1e3, s.name+"-us")
}

// BenchmarkLongPrompt is a prompt of 2,000 blocks of 16 tokens through a full cache of 16,384: one that shares nothing with
// those before, so that each block takes the place of another, on the device or also in host memory; and one that is all
// there.
func BenchmarkLongPrompt(b *testing.B) {
	const blocks, blockTokens = 2_000, 16
	for _, kind := range []struct {
		name         string
		hosts        int
		parts, known bool
	}{{name: "new"}, {name: "new-parts", parts: true}, {name: "new-host", hosts: 65_536, parts: true}, {name: "known", known: true}} {
		b.Run(kind.name, func(b *testing.B) {
			x, err := New(Config{BlockTokens: blockTokens, NumBlocks: 16_384, HostBlocks: kind.hosts})
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(3, 5))
			chain, ids := make([]Hash, blocks), make([]engine.TokenID, blocks*blockTokens)
			acquire, commit, release := spent{name: "acquire"}, spent{name: "commit"}, spent{name: "release"}
			sequence := func() {
				r := Request{Chain: chain, Reuse: blocks, Fill: blocks, Load: true}
				if kind.parts {
					r.Sequence = Sequence{Tokens: ids, Root: RootHash, Most: len(ids)}
				}
				acquire.begin()
				l, _ := x.Acquire(r)
				acquire.end()
				commit.begin()
				x.Commit(l)
				commit.end()
				release.begin()
				x.Release(l)
				release.end()
			}
			renew := func() {
				chain = make([]Hash, blocks) // the index holds the last one's
				for i := range chain {
					for at := 0; at < len(chain[i]); at += 8 {
						binary.LittleEndian.PutUint64(chain[i][at:], rng.Uint64())
					}
				}
				for i := range ids {
					ids[i] = rng.Uint32N(150_000)
				}
			}
			for range 60 {
				renew()
				sequence()
			}
			acquire.sum, commit.sum, release.sum = 0, 0, 0
			for b.Loop() {
				if !kind.known {
					renew()
				}
				sequence()
			}
			for _, s := range []*spent{&acquire, &commit, &release} {
				s.report(b)
			}
			if used := x.Used(); used < x.Blocks()-blockTokens {
				b.Errorf("%d of %d pages are used", used, x.Blocks())
			}
		})
	}
}
