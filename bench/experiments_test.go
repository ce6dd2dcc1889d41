package bench

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/bench/load"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// cells runs one experiment and reads its table back, one map a row.
func cells(t *testing.T, name string) []map[string]string {
	t.Helper()
	folder := t.TempDir()
	x := Experiments{Out: folder, Seed: 1, Repeats: 1, Log: io.Discard}
	if err := x.Run(name); err != nil {
		t.Fatal(err)
	}
	return readCells(t, folder, name)
}

// readCells reads a table back.
func readCells(t *testing.T, folder, name string) []map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	header := strings.Split(lines[0], ",")
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, cell := range strings.Split(line, ",") {
			row[header[i]] = cell
		}
		rows = append(rows, row)
	}
	return rows
}

func number(t *testing.T, row map[string]string, column string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(row[column], 64)
	if err != nil {
		t.Fatalf("%s of %v: %v", column, row, err)
	}
	return v
}

func TestTable52HasThePapersColumns(t *testing.T) {
	table, err := Table52()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(table.Header, ","); got != "machine,model,method,max_tokens,paper_tokens" {
		t.Errorf("header %s", got)
	}
	published := 0
	for _, row := range table.Rows {
		if row[4] != "" {
			published++
		}
	}
	if published != 15 {
		t.Errorf("%d of the paper's 15 figures are in the table", published)
	}
}

func TestFloodCostsAtMostFivePoints(t *testing.T) {
	for _, row := range cells(t, "flood") {
		if lost := number(t, row, "points_lost"); row["eviction"] == "reuse" && lost > 5 {
			t.Errorf("the flood costs %.1f points of hit rate", lost)
		} else if row["eviction"] == "lru" && lost < 5 {
			t.Errorf("the flood costs LRU %.1f points alone: it is too weak to show anything", lost)
		}
	}
}

// TestNewUsersAreNotTurnedAway: where the cache holds one profile and users come one after another,
// keeping what those before have left must not cost more than LRU does.
func TestNewUsersAreNotTurnedAway(t *testing.T) {
	m, err := presets.MachineNamed("H100")
	if err != nil {
		t.Fatal(err)
	}
	x := Experiments{Seed: 1, Repeats: 1}
	means := map[kvcache.Eviction]time.Duration{}
	for _, eviction := range []kvcache.Eviction{kvcache.EvictReuse, kvcache.EvictLRU} {
		e := newContender(m, presets.LayerMajor)
		e.eviction = eviction
		r, err := x.runSeeds(e, load.PostRecommendation(), 2.8) // a quarter of the saturation
		if err != nil {
			t.Fatal(err)
		}
		means[eviction] = r.mean
	}
	t.Logf("mean latency: reuse %v, lru %v", means[kvcache.EvictReuse], means[kvcache.EvictLRU])
	if means[kvcache.EvictReuse] > means[kvcache.EvictLRU]*105/100 {
		t.Errorf("mean latency %v, under LRU %v", means[kvcache.EvictReuse], means[kvcache.EvictLRU])
	}
}

// TestHostMemoryPays: users who come back in turn, more than the device holds profiles of, must find
// them in host memory; and without that the default eviction must keep up with LRU, however many wait.
func TestHostMemoryPays(t *testing.T) {
	m, err := presets.MachineNamed("L4")
	if err != nil {
		t.Fatal(err)
	}
	x := Experiments{Seed: 1}
	table := &figures.Table{}
	if err := x.hostTierOf(table, m, load.PostRecommendation()); err != nil {
		t.Fatal(err)
	}
	const throughput, mean = 5, 6
	cell := func(row, column int) float64 {
		v, err := strconv.ParseFloat(table.Rows[row][column], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for row := 0; row < len(table.Rows); row += 4 { // without by both evictions, 64 and 256 GiB
		if without, with := cell(row, mean), cell(row+2, mean); with > without/5 {
			t.Errorf("mean latency %v s with 64 GiB, %v s without", with, without)
		}
		if reuse, lru := cell(row, throughput), cell(row+1, throughput); reuse < 0.95*lru {
			t.Errorf("%v requests/s, %v under LRU", reuse, lru)
		}
	}
}

func TestPausingHelpsShortRequests(t *testing.T) {
	rows := cells(t, "preemption")
	for i := 0; i < len(rows); i += 2 {
		plain, paused := rows[i], rows[i+1]
		if plain["policy"] != "srjf-calibrated" || paused["policy"] != "srpt" || plain["short_per_s"] != paused["short_per_s"] {
			t.Fatalf("rows %v", rows)
		}
		if a, b := number(t, plain, "short_p99_s"), number(t, paused, "short_p99_s"); a < 5*b {
			t.Errorf("P99 of short requests: %v s without pauses, %v s with", a, b)
		}
		if a, b := number(t, plain, "throughput"), number(t, paused, "throughput"); b < 0.97*a {
			t.Errorf("throughput fell from %v to %v", a, b)
		}
	}
}

// The simulator must agree with the published throughput at saturation.
func TestCreditThroughputFollowsThePaper(t *testing.T) {
	for _, row := range cells(t, "figure-5.5") {
		if row["paper_throughput"] == "" {
			continue
		}
		if ratio := number(t, row, "throughput") / number(t, row, "paper_throughput"); ratio < 0.85 || ratio > 1.15 {
			t.Errorf("%s: %.2f of the published throughput", row["method"], ratio)
		}
	}
}

func TestSameSeedSameFiles(t *testing.T) {
	var files [2][]byte
	for i := range files {
		folder := t.TempDir()
		x := Experiments{Out: folder, Seed: 2, Repeats: 1, Log: io.Discard}
		if err := x.Run("figure-5.7"); err != nil {
			t.Fatal(err)
		}
		for _, ending := range []string{".csv", ".svg"} {
			text, err := os.ReadFile(filepath.Join(folder, "figure-5.7"+ending))
			if err != nil {
				t.Fatal(err)
			}
			files[i] = append(files[i], text...)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two runs of one seed differ")
	}
}

func TestUsersAreSplitInTurnAndStayTogether(t *testing.T) {
	var requests []load.Request
	for _, user := range []string{"a", "b", "c", "a", "b", "c"} {
		requests = append(requests, load.Request{User: user})
	}
	parts := byUser(requests, 2)
	if len(parts[0]) != 4 || len(parts[1]) != 2 || parts[1][0].User != "b" || parts[1][1].User != "b" {
		t.Errorf("parts %v", parts)
	}
	if len(byUser(requests[:1], 2)) != 1 {
		t.Error("an instance without users was kept")
	}
}

// TestRunsAreTold: what runs is told before each run of the simulator, and the line ends before a table.
func TestRunsAreTold(t *testing.T) {
	var heard []string
	var log strings.Builder
	x := Experiments{Log: &log, Seed: 1, Repeats: 1, Progress: func(what string) {
		if heard = append(heard, what); what == "" && log.Len() > 0 {
			t.Error("the table came before the end of the line")
		}
	}}
	if err := x.Run("flood"); err != nil {
		t.Fatal(err)
	}
	if len(heard) != 5 || heard[4] != "" || !strings.Contains(heard[3], "lru") {
		t.Errorf("told %q, want four runs and an end", heard)
	}
	h100, err := presets.MachineNamed("H100")
	if err != nil {
		t.Fatal(err)
	}
	heard = nil
	if _, err := x.runSeeds(newContender(h100, presets.PrefillOnly), load.PostRecommendation(), 3); err != nil || len(heard) != 1 || !strings.Contains(heard[0], "3.00 requests/s") {
		t.Errorf("told %q, %v", heard, err)
	}
}

func TestPromptThatDoesNotFitIsRefused(t *testing.T) {
	m, err := presets.MachineNamed("L4")
	if err != nil {
		t.Fatal(err)
	}
	requests := []load.Request{{Prompt: load.Prompt{Shape: load.Shape{SuffixTokens: 50_000}}}}
	if _, err := newContender(m, presets.Chunked).runSimulation(requests); err == nil || !strings.Contains(err.Error(), "takes 46") {
		t.Errorf("error %v", err)
	}
	x := Experiments{Log: io.Discard}
	if err := x.Run("figure-9"); err == nil || !strings.Contains(err.Error(), "figure-5.3") {
		t.Errorf("unknown experiment: error %v", err)
	}
}
