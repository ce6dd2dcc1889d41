package merge

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/generations"
	"github.com/prefillonly/prefillonly/merging/local"
)

//go:embed report.html
var reportText string

var reportPage = template.Must(template.New("report").Parse(reportText))

// reportName is the report's in a merge's directory.
const reportName = "report.html"

// page is what the report shows.
type page struct {
	Names, Shared, Total, Percent, Optimum, State string
	Generation                                    int
	Models                                        []generations.Merged
	Chart                                         template.HTML
	Groups                                        []groupRow
	Pictures                                      []pictures
}

// groupRow is a group of layers.
type groupRow struct {
	Signature, Saved, Members string
	Width                     float64 // of its bar
	Shared                    bool
}

// pictures are frames of a model's clip.
type pictures struct {
	Model, Note string
	Frames      []framePair
}

type framePair struct {
	Frame            int
	Score            float64
	Original, Merged template.URL
}

// shownFrames are those of each model, and widestBar is of the group that saves most, in the page's units.
const (
	shownFrames = 3
	widestBar   = 20
)

// writeReport leaves a page of a merge in its directory.
func writeReport(ctx context.Context, dir string, plan *merging.Plan, models []merging.TrainedModel) error {
	status, err := generations.Read(dir)
	if err != nil || status.Current == nil {
		return err
	}
	events, err := generations.Events(dir)
	if err != nil {
		return err
	}
	now := status.Current
	p := page{
		Shared: mebibytes(now.SharedBytes), Total: mebibytes(plan.Total()), Percent: fmt.Sprintf("%.1f", now.SharedPercent), Optimum: mebibytes(plan.Shared()),
		State: fmt.Sprintf("attempts: %d, in %.0f s: %s", status.Attempts, status.Seconds, status.Ended), Generation: now.Generation, Models: now.Models,
		Groups: groupRows(plan, now), Chart: chart(events, plan.Total(), now.Target),
	}
	var named []string
	for i, m := range now.Models {
		named = append(named, m.Name)
		if len(m.Changed) > 0 {
			p.Pictures = append(p.Pictures, comparePictures(ctx, models[i], filepath.Join(dir, "current", m.File)))
		}
	}
	p.Names = strings.Join(named, ", ")
	var text bytes.Buffer
	if err := reportPage.Execute(&text, p); err != nil {
		return err
	}
	path := filepath.Join(dir, reportName)
	if err := cli.WriteFile(path+".partial", func(f *os.File) error { _, err := f.Write(text.Bytes()); return err }); err != nil {
		return err
	}
	return os.Rename(path+".partial", path)
}

// chart is that of the events; empty: there is nothing to draw.
func chart(events []generations.Event, total int64, target float64) template.HTML {
	svg, err := chartOf(events, total, target).SVG()
	if err != nil {
		return ""
	}
	return template.HTML(svg)
}

// chartOf has each model's best score in each attempt over what the attempt saves.
func chartOf(events []generations.Event, total int64, target float64) *figures.Chart {
	c := &figures.Chart{Title: "Best score of each attempt (dashed: at least)", X: "% of bytes saved", Y: "score", Near: true}
	best := map[string]generations.Score{}
	saved := 0.
	add := func() {
		for _, e := range events {
			if s, ok := best[e.Model]; ok {
				c.Add(e.Model, saved, s.Value)
				c.AddDashed(e.Model+", at least", saved, s.Low)
				delete(best, e.Model)
			}
		}
	}
	for _, e := range events {
		switch e.Event {
		case generations.Tied:
			add()
			saved = percent(e.Saved, total)
		case generations.Scored:
			if s, ok := best[e.Model]; !ok || e.Score.Low > s.Low {
				best[e.Model] = *e.Score
			}
		}
	}
	add()
	for i := range c.Series {
		sortByX(&c.Series[i])
	}
	if len(c.Series) > 0 {
		most := percentMost(c.Series)
		c.AddDashed("target", 0, target)
		c.AddDashed("target", most, target)
	}
	return c
}

// sortByX puts a line's points in order.
func sortByX(s *figures.Series) {
	order := make([]int, len(s.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if s.X[a] < s.X[b] {
			return -1
		}
		return 1
	})
	was := *s
	s.X, s.Y = nil, nil
	for _, i := range order {
		s.X, s.Y = append(s.X, was.X[i]), append(s.Y, was.Y[i])
	}
}

func percentMost(list []figures.Series) (most float64) {
	for _, s := range list {
		most = max(most, slices.Max(s.X))
	}
	return most
}

// groupRows are the groups, those that save most first.
func groupRows(plan *merging.Plan, now *generations.Merge) (rows []groupRow) {
	shared := map[generations.Member]bool{}
	for _, s := range now.Shared {
		for _, m := range s.Members {
			shared[m] = true
		}
	}
	for _, g := range plan.Groups {
		row := groupRow{Signature: g.Signature, Saved: mebibytes(g.Saved()), Width: widestBar * float64(g.Saved()) / float64(plan.Groups[0].Saved()), Shared: true}
		var members []string
		for _, m := range g.Members {
			name := plan.Models[m.Model].Name
			members = append(members, name+" "+m.Layer)
			row.Shared = row.Shared && shared[generations.Member{Model: name, Layer: m.Layer}]
		}
		row.Members = strings.Join(members, ", ")
		rows = append(rows, row)
	}
	return rows
}

// comparePictures are the frames in which a merged file differs most from its original, or why there are none.
func comparePictures(ctx context.Context, m merging.TrainedModel, merged string) pictures {
	p := pictures{Model: m.Name}
	found, err := local.Differences(ctx, m, merged, shownFrames, local.Options{})
	switch {
	case err != nil:
		p.Note = fmt.Sprintf("No frames: %v.", err)
	case len(found) == 0:
		p.Note = "In no frame that was looked at does it find anything else."
	}
	uri := func(jpeg []byte) template.URL {
		return template.URL("data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(jpeg))
	}
	for _, d := range found {
		p.Frames = append(p.Frames, framePair{d.Frame, d.Score, uri(d.Original), uri(d.Other)})
	}
	return p
}
