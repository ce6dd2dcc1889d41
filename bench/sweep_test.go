package bench

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/bench/load"
)

// queue answers requests one after another, each after service.
func queue(service time.Duration) Measure {
	return func(_ context.Context, requests []load.Request) ([]load.Record, error) {
		var free time.Duration
		records := make([]load.Record, len(requests))
		for i, q := range requests {
			free = max(free, q.At) + service
			records[i] = load.Record{Index: i, Scheduled: q.At, Done: free, Status: 200, Tokens: 10, Cached: 5}
		}
		return records, nil
	}
}

func sweep() Sweep {
	return Sweep{Label: "fake", Workload: "post-recommendation", Requests: func(rate float64) ([]load.Request, error) {
		return load.PostRecommendation().Generate(load.Arrivals{Rate: rate}, 1)
	}}
}

func TestSweepTakesMultiplesOfTheSaturation(t *testing.T) {
	points, err := sweep().Run(t.Context(), queue(100*time.Millisecond), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{math.Inf(1), 2.5, 5, 10, 20, 30, 40}
	for i, p := range points {
		if !(p.Rate == want[i] || math.Abs(p.Rate-want[i]) < 1e-6) || p.Cached != 0.5 {
			t.Errorf("point %d: %+v, want rate %v", i, p, want[i])
		}
	}
	if points[1].Throughput < 2.2 || points[6].Throughput > 10.01 || points[6].P99 < points[1].P99 {
		t.Errorf("points %+v", points)
	}
	var text strings.Builder
	if err := WritePoints(&text, points); err != nil {
		t.Fatal(err)
	}
	back, err := ReadPoints(strings.NewReader(text.String()), "s.csv")
	if err != nil || len(back) != len(points) || math.Abs(back[2].P99.Seconds()-points[2].P99.Seconds()) > 1e-4 {
		t.Fatalf("read back %+v, %v", back, err)
	}
	folder := t.TempDir()
	if err := PlotSweep(back, folder); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"post-recommendation-mean.svg", "post-recommendation-p99.svg"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestSweepWithGivenSaturationSkipsItsMeasurement(t *testing.T) {
	s := sweep()
	s.Saturation = 8
	prompts := map[uint64]bool{}
	points, err := s.Run(t.Context(), func(ctx context.Context, requests []load.Request) ([]load.Record, error) {
		prompts[requests[0].Prompt.Shape.Prefix] = true
		return queue(time.Millisecond)(ctx, requests)
	}, io.Discard)
	if err != nil || len(points) != 6 || points[0].Rate != 2 {
		t.Fatalf("%+v, %v", points, err)
	}
	if len(prompts) != 6 {
		t.Error("two runs shared a prefix")
	}
}

func TestSweepTakesTheMultiplesItIsGiven(t *testing.T) {
	s := sweep()
	s.Saturation, s.Multiples = 8, []float64{math.Inf(1), 0.5}
	points, err := s.Run(t.Context(), queue(time.Millisecond), io.Discard)
	if err != nil || len(points) != 2 || !math.IsInf(points[0].Rate, 1) || points[1].Rate != 4 {
		t.Fatalf("%+v, %v", points, err)
	}
}

func TestSweepStopsWhereAllFails(t *testing.T) {
	_, err := sweep().Run(t.Context(), func(context.Context, []load.Request) ([]load.Record, error) {
		return []load.Record{{Err: "the queue is full"}}, nil
	}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the queue is full") {
		t.Errorf("error %v", err)
	}
	gone := errors.New("gone")
	if _, err = sweep().Run(t.Context(), func(context.Context, []load.Request) ([]load.Record, error) { return nil, gone }, io.Discard); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
}

func TestReadPointsNamesTheFault(t *testing.T) {
	header := strings.Join(pointHeader, ",") + "\n"
	for text, want := range map[string]string{
		"a,b\n":                           "s.csv is not a sweep",
		header + "a,b,x,1,1,1,1,1,1,1\n":  "s.csv:2: rate",
		header + "a,b\n":                  "s.csv",
		header + "a,b,1,1,1,1,1,1,1,no\n": "s.csv:2: failed",
	} {
		if _, err := ReadPoints(strings.NewReader(text), "s.csv"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestReportWarnsOfALateClient(t *testing.T) {
	text := Report(load.Summarize([]load.Record{{Sent: time.Second, Done: 1100 * time.Millisecond, Status: 200, Tokens: 4}}))
	if !strings.Contains(text, "late by 1s") || !strings.Contains(text, "P99 1.1s") {
		t.Errorf("report\n%s", text)
	}
	if reflect.DeepEqual(Report(load.Summary{}), text) {
		t.Error("an empty run reports the same")
	}
}

func TestSustainedEndsAtTheFirstRateThatBreaksTheBound(t *testing.T) {
	points := []Point{
		{Label: "a", Workload: "w", Rate: math.Inf(1), P99: 9 * time.Second},
		{Label: "a", Workload: "w", Rate: 1, P99: time.Second}, {Label: "a", Workload: "w", Rate: 2, P99: 3 * time.Second}, {Label: "a", Workload: "w", Rate: 4, P99: time.Second},
		{Label: "b", Workload: "w", Rate: 1, P99: 3 * time.Second}, {Label: "c", Workload: "w", Rate: 1, P99: time.Second, Failed: 1},
	}
	got := Sustained(points, 2*time.Second).Rows
	if want := [][]string{{"w", "a", "1"}, {"w", "b", "0"}, {"w", "c", "0"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
