package video

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/videoext/link"
)

// drawDensity has, for each part of all clips, what DDS's families of settings gain over plain H.264 at equal bytes, on average, over how many objects there are.
func drawDensity(rows []Row, dir string) error {
	parts := map[string][]Row{}
	for _, r := range rows {
		parts[r.Clip] = append(parts[r.Clip], r)
	}
	judged := measure{byDDS, Resources[0].of}
	c := figures.Chart{Title: "What DDS gains over the density of objects", X: "objects a frame", Y: "F1 above plain H.264 at equal bytes", Near: true}
	order := slices.SortedFunc(maps.Keys(parts), func(a, b string) int {
		return cmp.Or(cmp.Compare(parts[a][0].Objects, parts[b][0].Objects), cmp.Compare(a, b))
	})
	for _, name := range order {
		families := map[string][]Row{}
		for _, r := range methodRows("dds", parts[name], name) {
			families[r.chartFamily()] = append(families[r.chartFamily()], r)
		}
		for _, family := range slices.Sorted(maps.Keys(families)) {
			if g := judged.gainOf(families[family], plainRows(parts[name], name)); g.settings > 0 {
				c.Add(family, parts[name][0].Objects, g.f1)
			}
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	return c.Write(filepath.Join(dir, "video-density.svg"))
}

// drawVarying has accuracy and response delay over how much a link's rate changes, as a part of its mean: means over links that do so alike, and
// over settings of a family.
func drawVarying(rows []Row, clip, dir string) error {
	type point struct {
		series    string
		deviation float64
	}
	var points []point
	sums := map[point][3]float64{} // F1, seconds and number
	for i := range rows {
		r := &rows[i]
		deviation, ok := link.Deviation(r.Link)
		if !ok {
			continue
		}
		p := point{r.chartFamily(), deviation}
		if _, known := sums[p]; !known {
			points = append(points, p)
		}
		s := sums[p]
		sums[p] = [3]float64{s[0] + r.F1DDS, s[1] + r.Delay.Seconds(), s[2] + 1}
	}
	if len(points) == 0 {
		return nil
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.deviation, b.deviation) })
	const x = "deviation of the link's rate, part of its mean"
	f1 := figures.Chart{Title: "Accuracy over a link that changes, " + clip, X: x, Y: "F1 by DDS's rule", Near: true}
	delay := figures.Chart{Title: "Response delay over a link that changes, " + clip, X: x, Y: "seconds"}
	for _, p := range points {
		s := sums[p]
		f1.Add(p.series, p.deviation, s[0]/s[2])
		delay.Add(p.series, p.deviation, s[1]/s[2])
	}
	if err := f1.Write(filepath.Join(dir, "video-link-accuracy-"+clip+".svg")); err != nil {
		return err
	}
	return delay.Write(filepath.Join(dir, "video-link-delay-"+clip+".svg"))
}
