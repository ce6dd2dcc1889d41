package video

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/videoext/link"
)

// Unlimited is a link that carries all at once, over a round trip of 100 ms.
func Unlimited() Network { return Network{Trace: link.Unlimited(), RTT: 100e6} }

// swept are settings by which a family of settings is one line from few bytes to many.
var swept = []string{"qp", "low", "high", "budget", "threshold", "share", "lambda", "frames"}

// chartFamily is the line of a chart that a row belongs to: its method, and what its settings are beside those that are swept.
func (r *Row) chartFamily() string {
	name := r.Method
	for setting := range strings.SplitSeq(r.Setting, ",") {
		if key, value, _ := strings.Cut(setting, "="); key != "" && !slices.Contains(swept, key) {
			name += ", " + key + " " + value
		}
	}
	return name
}

// Draw writes the charts of results to a directory: for each clip accuracy over bytes, by both rules, response delay and cost, and if results differ in
// it, accuracy over the threshold of regions. Of clips in parts there is one chart, of what DDS gains over the density of objects; of links whose rate
// changes, accuracy and delay over how much it does.
func Draw(rows []Row, cost Resource, dir string) error {
	byClip, parts, varying := map[string][]Row{}, []Row(nil), map[string][]Row{}
	for _, r := range rows {
		switch {
		case r.Link != "":
			varying[r.Clip] = append(varying[r.Clip], r)
		case strings.Contains(r.Clip, "@"):
			parts = append(parts, r)
		default:
			byClip[r.Clip] = append(byClip[r.Clip], r)
		}
	}
	for _, clip := range slices.Sorted(maps.Keys(byClip)) {
		if err := drawAccuracy(byClip[clip], cost, clip, dir); err != nil {
			return err
		}
		for _, draw := range []func(rows []Row, clip, dir string) error{drawCost, drawSensitivity} {
			if err := draw(byClip[clip], clip, dir); err != nil {
				return err
			}
		}
	}
	for _, clip := range slices.Sorted(maps.Keys(varying)) {
		if err := drawVarying(varying[clip], clip, dir); err != nil {
			return err
		}
	}
	return drawDensity(parts, dir)
}

func drawAccuracy(rows []Row, cost Resource, clip, dir string) error {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(cost.of(&a), cost.of(&b)) })
	title, x, whole := "Accuracy over bandwidth, ", "bytes sent, part of the original video's", func(r *Row) float64 { return float64(max(r.Original, 1)) }
	if cost.Name != "bytes" {
		title, x, whole = "Accuracy over "+cost.Name+", ", cost.Name+" that the network looks at", func(*Row) float64 { return 1 }
	}
	for _, rule := range []struct {
		name, y string
		f1      func(Row) float64
	}{
		{"dds", "F1 by DDS's rule", func(r Row) float64 { return r.F1DDS }},
		{"oneadapt", "F1 by OneAdapt's rule", func(r Row) float64 { return r.F1OneAdapt }},
	} {
		c := figures.Chart{Title: title + clip, X: x, Y: rule.y, LogX: true, Near: true}
		for i := range rows {
			c.Add(rows[i].chartFamily(), cost.of(&rows[i])/whole(&rows[i]), rule.f1(rows[i]))
		}
		if err := c.Write(filepath.Join(dir, fmt.Sprintf("video-accuracy-%s-%s.svg", rule.name, clip))); err != nil {
			return err
		}
	}
	return nil
}

// drawCost has, for each method, the setting of the best F1 for its bytes: the highest sum of F1 by DDS's rule and of the part of the original's bytes
// that it saves.
func drawCost(rows []Row, clip, dir string) error {
	best := map[string]Row{}
	value := func(r Row) float64 { return r.F1DDS - float64(r.Container)/float64(max(r.Original, 1)) }
	for _, r := range rows {
		if old, ok := best[r.Method]; !ok || value(r) > value(old) {
			best[r.Method] = r
		}
	}
	delay := figures.Bars{Title: "Response delay, " + clip, Y: "seconds"}
	cost := figures.Bars{Title: "Processor time a second of video, relative to that of mpeg, " + clip, Y: "times"}
	var delays, camera, server []float64
	base, ok := best["mpeg"]
	for _, name := range slices.Sorted(maps.Keys(best)) {
		r := best[name]
		delay.Groups, cost.Groups = append(delay.Groups, name), append(cost.Groups, name)
		delays = append(delays, r.Delay.Seconds())
		if ok {
			camera, server = append(camera, r.Camera.Seconds()/base.Camera.Seconds()), append(server, r.Server.Seconds()/base.Server.Seconds())
		}
	}
	delay.Series = []figures.Series{{Name: "from capture to result", Y: delays}}
	if err := delay.Write(filepath.Join(dir, "video-delay-"+clip+".svg")); err != nil || !ok {
		return err
	}
	cost.Series = []figures.Series{{Name: "camera", Y: camera}, {Name: "server's network", Y: server}}
	return cost.Write(filepath.Join(dir, "video-cost-"+clip+".svg"))
}

// drawSensitivity has DDS's accuracy and bytes over the objectness from which on regions are asked for: means over settings that have the same one.
func drawSensitivity(rows []Row, clip, dir string) error {
	type sums struct{ f1, f1OneAdapt, bytes, n float64 }
	by := map[float64]sums{}
	most := 0.0
	for i := range rows {
		r := &rows[i]
		at, ok := r.number("objectness")
		if !ok || r.Method != "dds" {
			continue
		}
		s := by[at]
		s = sums{s.f1 + r.F1DDS, s.f1OneAdapt + r.F1OneAdapt, s.bytes + float64(r.Container), s.n + 1}
		by[at] = s
		most = max(most, s.bytes/s.n)
	}
	if len(by) < 3 {
		return nil
	}
	c := figures.Chart{Title: "Threshold of regions, " + clip, X: "least objectness", Y: "F1, and part of the dearest's bytes"}
	for _, at := range slices.Sorted(maps.Keys(by)) {
		s := by[at]
		c.Add("F1 by DDS's rule", at, s.f1/s.n)
		c.Add("F1 by OneAdapt's rule", at, s.f1OneAdapt/s.n)
		c.Add("bytes", at, s.bytes/s.n/most)
	}
	return c.Write(filepath.Join(dir, "video-sensitivity-"+clip+".svg"))
}

// number is the value of a setting.
func (r *Row) number(setting string) (v float64, ok bool) {
	for s := range strings.SplitSeq(r.Setting, ",") {
		if value, found := strings.CutPrefix(s, setting+"="); found {
			v, err := strconv.ParseFloat(value, 64)
			return v, err == nil
		}
	}
	return 0, false
}
