package figures

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChartsAreReproducible(t *testing.T) {
	chart := Chart{
		Title: "Latency", X: "requests/s", Y: "seconds", LogY: true,
		Series: []Series{
			{Name: "ours", X: []float64{1, 2, 3}, Y: []float64{0.1, 0.2, math.NaN()}},
			{Name: "theirs", X: []float64{1, 2, 3}, Y: []float64{0.3, 0, 2}, Dashed: true},
			{Name: "absent"},
		},
	}
	bars := Bars{Title: "Throughput", Y: "req/s", Groups: []string{"low", "high"}, Series: []Series{{Name: "a", Y: []float64{1, 2}}, {Name: "b", Y: []float64{3, math.Inf(1)}}}}
	for _, ending := range []string{".svg", ".png"} {
		for name, write := range map[string]func(string) error{"chart": chart.Write, "bars": bars.Write} {
			var files [2][]byte
			for i := range files {
				path := filepath.Join(t.TempDir(), "sub", name+ending)
				if err := write(path); err != nil {
					t.Fatal(err)
				}
				var err error
				if files[i], err = os.ReadFile(path); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(files[0], files[1]) {
				t.Errorf("%s%s differs from one drawing to the next", name, ending)
			}
			if ending == ".svg" && (bytes.Contains(files[0], []byte("NaN")) || !bytes.Contains(files[0], []byte("</svg>"))) {
				t.Errorf("%s.svg is not a whole picture", name)
			}
		}
	}
	if err := (&Chart{Series: []Series{{Name: "empty"}}}).Write(filepath.Join(t.TempDir(), "x.svg")); err == nil {
		t.Error("a chart of nothing was drawn")
	}
}

func TestTable(t *testing.T) {
	table := Table{Header: []string{"machine", "tokens"}}
	table.Add("L4", 24000)
	table.Add("H100", 0.123456)
	want := "| machine | tokens |\n|---------|--------|\n| L4      | 24000  |\n| H100    | 0.1235 |\n"
	if got := table.Markdown(); got != want {
		t.Errorf("got\n%s want\n%s", got, want)
	}
	var b strings.Builder
	if err := table.CSV(&b); err != nil || b.String() != "machine,tokens\nL4,24000\nH100,0.1235\n" {
		t.Errorf("CSV %q, %v", b.String(), err)
	}
}

// TestOneValue: an axis of logarithms with one value on it is drawn.
func TestOneValue(t *testing.T) {
	c := Chart{Title: "one", X: "x", Y: "y", LogX: true, LogY: true, Series: []Series{{Name: "a", X: []float64{0.5, 0.5}, Y: []float64{2, 2}}}}
	if err := c.Write(filepath.Join(t.TempDir(), "one.svg")); err != nil {
		t.Error(err)
	}
}
