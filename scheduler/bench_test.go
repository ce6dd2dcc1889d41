package scheduler

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/events"
)

// crowd is a Core in which n jobs wait: users of a profile of 512 tokens each, with a post of 40.
func crowd(b *testing.B, policy string, n int) (*world, *wire.Run) {
	b.Helper()
	cfg := DefaultConfig()
	cfg.Policy, cfg.MaxQueuedJobs, cfg.PeerTimeout = policy, 1<<30, 1<<62
	w := newWorld(b, cfg)
	w.frontend("web")
	info := executorInfo()
	info.BlockTokens, info.NumBlocks, info.MaxPassRows = 64, 4096, 0
	w.executor("cpu", 1, info)
	run := runs(w.submit("web", crowdJob(0)))[0]
	for i := 1; i <= n; i++ {
		w.now += time.Millisecond
		w.submit("web", crowdJob(i))
	}
	return w, run
}

func crowdJob(i int) *submission {
	t := tokens(i%2000, 552)
	for k := 512; k < len(t); k++ {
		t[k] = engine.TokenID(i*40+k) % 65536
	}
	return &submission{Job: engine.JobID(i + 1), Tokens: t, MaxTokens: 1, User: fmt.Sprint(i % 2000)}
}

// BenchmarkStep measures a Step that ends a pass, answers its job, follows the cache, chooses among
// 100,000 waiting jobs and starts the next pass; and one that takes a job in.
func BenchmarkStep(b *testing.B) {
	const waiting = 100_000
	for _, policy := range Policies() {
		b.Run(policy, func(b *testing.B) {
			w, run := crowd(b, policy, waiting)
			next := waiting + 1
			b.ReportAllocs()
			for b.Loop() {
				w.now += time.Millisecond
				done := answer(run, time.Millisecond)
				run = runs(w.core.Step(w.now, "cpu", done))[0]
				b.StopTimer()
				w.submit("web", crowdJob(next)) // the queue stays as long
				next++
				b.StartTimer()
			}
		})
	}
}

// BenchmarkStepOfSharedPrefix measures a Step in which a prefix that all of 100,000 waiting jobs share is
// stored and then evicted.
func BenchmarkStepOfSharedPrefix(b *testing.B) {
	const waiting = 100_000
	for i, policy := range append(Policies(), DefaultConfig().Policy) {
		name, host := policy, 0
		if i == len(Policies()) {
			name, host = policy+"-host", 100
		}
		b.Run(name, func(b *testing.B) {
			w, run := sharers(b, named(b, policy), waiting, host)
			next := waiting + 1
			for b.Loop() {
				b.StopTimer()
				w.submit("web", sharer(next)) // the queue stays as long
				run = alternate(w, run, engine.JobID(1<<30+next), func(step func()) {
					b.StartTimer()
					step()
					b.StopTimer()
				})
				next++
				b.StartTimer()
			}
		})
	}
}

// BenchmarkStepWithEvents adds to the first of those steps what it takes to record and encode the
// changes of the cache.
func BenchmarkStepWithEvents(b *testing.B) {
	w, run := crowd(b, DefaultConfig().Policy, 100_000)
	w.core.RecordCacheEvents()
	next, bytes := 100_001, 0
	b.ReportAllocs()
	for b.Loop() {
		w.now += time.Millisecond
		done := answer(run, time.Millisecond)
		run = runs(w.core.Step(w.now, "cpu", done))[0]
		bytes += len(events.Encode(0, w.core.CacheEvents()))
		b.StopTimer()
		w.submit("web", crowdJob(next)) // the queue stays as long
		next++
		b.StartTimer()
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "event-B/op")
}

func BenchmarkSubmit(b *testing.B) {
	for _, size := range []int{552, 14150, 60000} {
		b.Run(fmt.Sprintf("tokens=%d", size), func(b *testing.B) {
			w, _ := crowd(b, DefaultConfig().Policy, 100_000)
			prompt := tokens(9, size)
			id := engine.JobID(1 << 30)
			for b.Loop() {
				id++
				w.submit("web", &submission{Job: id, Tokens: prompt, MaxTokens: 1})
				b.StopTimer()
				w.step("web", &wire.Cancel{Job: id})
				b.StartTimer()
			}
		})
	}
}

// BenchmarkMemory reports the bytes that a waiting job takes beside its tokens.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const n = 20_000
		w, _ := crowd(b, DefaultConfig().Policy, n)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n-552*4, "B/job")
		runtime.KeepAlive(w)
	}
}

// BenchmarkRoute measures the choice among 1,000 executors, half of them busy.
func BenchmarkRoute(b *testing.B) {
	for _, routing := range []string{RoutePrefix, RouteUser, RouteLoad} {
		b.Run(routing, func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Routing, cfg.PeerTimeout = routing, 1<<62
			w := newWorld(b, cfg)
			info := executorInfo()
			info.BlockTokens = 64
			for i := range 1000 {
				w.executor(PeerID(fmt.Sprintf("gpu-%d", i)), 1, info)
			}
			w.frontend("web")
			for i := range 500 {
				w.submit("web", crowdJob(i))
			}
			id := engine.JobID(1 << 30)
			for b.Loop() {
				b.StopTimer()
				m := crowdJob(int(id) % 2000)
				id++
				m.Job = id
				b.StartTimer()
				w.submit("web", m)
				b.StopTimer()
				w.step("web", &wire.Cancel{Job: id})
				b.StartTimer()
			}
		})
	}
}

// BenchmarkStepOfManyModels is BenchmarkStep on an executor with 1,000 models more, of which so many have jobs too.
func BenchmarkStepOfManyModels(b *testing.B) {
	for _, busy := range []int{0, 10, 1000} {
		b.Run(fmt.Sprintf("busy=%d", busy), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.MaxQueuedJobs, cfg.PeerTimeout = 1<<30, 1<<62
			w := newWorld(b, cfg)
			w.frontend("web")
			info := executorInfo()
			info.BlockTokens, info.NumBlocks, info.MaxPassRows = 64, 4096, 0
			many := info.info()
			for i := range 1000 {
				m := modelOf(fmt.Sprint("other-", i), opts{"pieces": fmt.Sprint(i), "unit": "1ms"})
				many.Models = append(many.Models, m)
				many.Weights = append(many.Weights, wire.Weight{Resident: true})
			}
			hello := &wire.Hello{Role: wire.RoleExecutor, Name: "cpu", Epoch: 1, Executor: many}
			w.step("cpu", hello)
			w.step("cpu", hello)
			run := runs(w.submit("web", crowdJob(0)))[0]
			for i := 1; i <= 100_000; i++ {
				w.now += time.Millisecond
				w.submit("web", crowdJob(i))
			}
			for i := range busy {
				w.submit("web", &submission{Job: engine.JobID(1<<40 + i), Model: fmt.Sprint("other-", i), Tokens: tokens(1, 60_000), MaxTokens: 1})
			}
			next := 100_001
			b.ReportAllocs()
			for b.Loop() {
				w.now += time.Millisecond
				done := answer(run, time.Millisecond)
				run = runs(w.core.Step(w.now, "cpu", done))[0]
				b.StopTimer()
				w.submit("web", crowdJob(next)) // the queue stays as long
				next++
				b.StartTimer()
			}
		})
	}
}
