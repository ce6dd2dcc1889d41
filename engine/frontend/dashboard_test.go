package frontend

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what the test reads of configs/grafana.json.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type, Definition string
		}
	}
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

var (
	// metricName is a name in a query: those of functions and labels have neither colon nor these beginnings.
	metricName = regexp.MustCompile(`\b(?:(?:vllm|prefillonly):|process_|go_|DCGM_)\w+`)
	// labelName is a label that a query selects by, or sums by.
	labelName = regexp.MustCompile(`(\w+)=~?"|\bby \(([\w, ]+)\)`)
	shown     = regexp.MustCompile(`\{\{(\w+)\}\}`)
	variable  = regexp.MustCompile(`\$(\w+)`)
)

// TestDashboard: every name, label and variable in the queries of the Grafana dashboard is there to be asked for.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../configs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	page := busyMetrics(t)
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Type == "query" {
			checkQuery(t, page, v.Definition, nil)
		}
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
			t.Errorf("panel %q: id %d, place %v, %d queries", p.Title, p.ID, p.GridPos, len(p.Targets))
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			checkQuery(t, page, target.Expr, shown.FindAllStringSubmatch(target.LegendFormat, -1))
		}
	}
	for _, m := range variable.FindAllSubmatch(text, -1) {
		if !slices.Contains(append(variables, "__all"), string(m[1])) {
			t.Errorf("there is no variable %s", m[0])
		}
	}
	if len(ids) < 10 {
		t.Errorf("%d panels were read", len(ids))
	}
}

// checkQuery holds that the page has a series with each name in a query, and all labels that it asks for.
func checkQuery(t *testing.T, page, query string, legend [][]string) {
	t.Helper()
	labels := []string{}
	for _, m := range append(labelName.FindAllStringSubmatch(query, -1), legend...) {
		for label := range strings.SplitSeq(strings.Join(m[1:], ""), ", ") {
			// These two are Prometheus's own.
			if label != "job" && label != "instance" {
				labels = append(labels, label)
			}
		}
	}
	names := metricName.FindAllString(query, -1)
	for _, name := range names {
		if !hasSeries(page, name, labels) {
			t.Errorf("no series %s with the labels %v, as %s wants", name, labels, query)
		}
	}
	if len(names) == 0 {
		t.Errorf("no name of a metric was found in %s", query)
	}
}

func hasSeries(page, name string, labels []string) bool {
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(line, name)
		if ok && strings.ContainsAny(rest[:1], "{ ") && !slices.ContainsFunc(labels, func(l string) bool {
			return !strings.Contains(rest, "{"+l+"=") && !strings.Contains(rest, ","+l+"=")
		}) {
			return true
		}
	}
	return false
}
