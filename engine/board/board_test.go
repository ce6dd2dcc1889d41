package board

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/metrics"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// reading is one of a server that answered n requests, half of them in 10 to 20 ms and the others in up to 5 ms, with a tenth of the tokens cached.
func reading(at float64, epoch, n uint64) Reading {
	half := float64(n) / 2
	return Reading{
		At:   at,
		Open: 7,
		Pool: &client.State{
			Epoch:  epoch,
			Models: map[string]*wire.Served{"b<": {Name: "b<", State: wire.ModelReady, Bytes: 2e9}, "a": {Name: "a", State: wire.ModelFailed, Reason: "no room"}},
			Stats:  []wire.ModelStats{{Model: "b<", Waiting: 1, Running: 2, CacheUsed: 0.5, Passes: n, ComputedUnits: 100 * n, PrefixQueries: 100 * n, PrefixHits: 10 * n}},
			Executors: []wire.ExecutorState{{Name: "cpu-0", Device: "cpu avx2", Passes: []wire.PassState{
				{Model: "b<", Jobs: 2, Units: 300, Ran: 40 * time.Millisecond}, {Model: "b<", Jobs: 1, Units: 5, Place: wire.PassPaused},
			}}},
		},
		Processors: Processors{Slots: 3, Running: 2, Waiting: 9, Kinds: []processors.Kind{{Name: "pictures<", Running: 1, Waiting: 4, Late: 17, Refused: 23}}},
		Merges:     []metrics.Merge{{Model: "m<", State: "watched", Shared: 3e6, Score: .9634, Target: .95, Samples: 1234, Reverts: 1}},
		Totals:     map[string]metrics.Totals{"a": {Answered: float64(n), Latency: map[float64]float64{0.005: half, 0.01: half, 0.02: float64(n), math.Inf(1): float64(n)}}},
	}
}

// TestStep: figures are of the last ten seconds, and of what was counted since.
func TestStep(t *testing.T) {
	var b Board
	b.Step(reading(2, 1, 50))
	for at := 3.0; at <= 20; at++ {
		b.Step(reading(at, 1, 50))
	}
	f := b.Step(reading(21, 1, 150))
	if f.Span != 10 && f.Span != 11 || math.Abs(f.Requests-100/f.Span) > 1e-9 || math.Abs(f.Tokens-100*f.Requests) > 1e-9 {
		t.Errorf("%+v, want 100 requests in about 10 s", f)
	}
	if f.Waiting != 5 || f.Running != 2 || f.CacheUsed != 50 || f.CacheHit == nil || math.Abs(*f.CacheHit-10) > 1e-9 {
		t.Errorf("%+v, want 5 jobs waiting of 7, 2 in passes, half of the cache used, a tenth hit", f)
	}
	if f.P50 == nil || math.Abs(*f.P50-5) > 1e-9 || math.Abs(*f.P99-19.8) > 1e-9 {
		t.Errorf("P50 %v, P99 %v, want 5 and 19.8 ms", *f.P50, *f.P99)
	}
	if f = b.Step(reading(90, 2, 10)); f.Requests < 0 || f.Tokens < 0 || f.CacheHit == nil {
		t.Errorf("after a restart: %+v", f)
	}
	if f = new(Board).Step(reading(1, 1, 1e9)); f.P50 != nil || f.CacheHit != nil || f.Requests != 0 || f.Tokens != 0 {
		t.Errorf("at the first reading: %+v, want no rates", f)
	}
}

// TestFrontends: what each frontend has counted adds up, though one stands still for a while or is started again.
func TestFrontends(t *testing.T) {
	var b Board
	at := 0.0
	step := func(answered map[string]float64) Figures {
		at++
		r := Reading{At: at, Pool: &client.State{}, Totals: map[string]metrics.Totals{}}
		for name, n := range answered {
			r.Totals[name] = metrics.Totals{Answered: n, Latency: map[float64]float64{0.01: n, math.Inf(1): n}}
		}
		return b.Step(r)
	}
	step(map[string]float64{"a": 1000, "b": 5000})
	for i, c := range []struct {
		answered map[string]float64
		want     float64 // since the first reading
	}{
		{map[string]float64{"a": 1010, "b": 5010}, 20},
		{map[string]float64{"a": 1020}, 20},
		{map[string]float64{"a": 1030, "b": 5020}, 50},
		{map[string]float64{"a": 1030, "b": 7}, 37},
		{map[string]float64{"a": 1030, "b": 7, "c": 1e6}, 37},
	} {
		if f := step(c.answered); math.Abs(f.Requests*f.Span-c.want) > 1e-6 || f.P99 == nil {
			t.Errorf("%d: %v requests in %v s, want %v", i, f.Requests*f.Span, f.Span, c.want)
		}
	}
}

// TestPage: the figures are on the page as it is rendered, and what comes from outside is escaped.
func TestPage(t *testing.T) {
	var b Board
	b.Step(reading(0, 1, 0))
	r := reading(10, 1, 100)
	r.Trouble = "the <scheduler> is silent"
	f := b.Step(r)
	var page strings.Builder
	if err := f.Page(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<dd id="waiting">5</dd>`, `<dd id="p99">19.8 ms</dd>`, "<td>b&lt;</td>", "2.0 GB", `title="no room"`, "cpu avx2", "<td>40 ms</td>", "paused", "old: the &lt;scheduler&gt; is silent", "2 of 3 slots in use, 9 stages waiting", "<td>3.0 MB</td><td>0.963</td><td>0.950</td><td>1234</td><td>1</td>", "<td>pictures&lt;</td><td>1</td><td>4</td><td>17</td><td>23</td>", `http-equiv="refresh"`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page.String(), "b<") || strings.Contains(page.String(), "ZgotmplZ") {
		t.Error("the page has what is not escaped")
	}
}

// TestText: the same figures as text, each table's columns below one another.
func TestText(t *testing.T) {
	var b Board
	b.Step(reading(0, 1, 0))
	r := reading(10, 1, 100)
	r.Trouble = "the scheduler is silent"
	f := b.Step(r)
	var text strings.Builder
	if err := f.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"old: the scheduler is silent", "waiting 5  ", "P99 19.8 ms", "b<     ready   1 ", "–  no room", "2.0 GB", "cpu avx2", "40 ms", "5               0 ms paused", "the last 10 s", "slots in use 2 of 3", "watched  3.0 MB  0.963  0.950   1234     1", "pictures<  1        4        17    23"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "\t") {
		t.Error("the text has tabs")
	}
}
