package video

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/methods"
)

// Specifications splits a list of methods, each of which may have settings with commas between them: a part that is name=value belongs to the method
// before it.
func Specifications(list string) (all []string) {
	for part := range strings.SplitSeq(list, ",") {
		head, _, isSetting := strings.Cut(part, "=")
		if isSetting && !strings.Contains(head, ":") && len(all) > 0 {
			all[len(all)-1] += "," + part
			continue
		}
		all = append(all, part)
	}
	return all
}

// Usual are the settings that a method is run with that is named alone, so that they make a curve from few bytes to many. Segments have so many
// frames, and the clip this many bytes a second.
func Usual(name string, frames int, rate float64) (all []string) {
	add := func(format string, args ...any) {
		all = append(all, fmt.Sprintf("%s:frames=%d,", name, frames)+fmt.Sprintf(format, args...))
	}
	switch name {
	case "mpeg":
		for _, scale := range []float64{0.6, 0.8, 1} {
			for qp := 24; qp <= 44; qp += 2 {
				add("qp=%d,scale=%g", qp, scale)
			}
		}
	case "dds":
		for _, pair := range [][2]int{{44, 32}, {42, 30}, {40, 28}, {40, 26}, {38, 24}, {36, 22}} {
			all = append(all, fmt.Sprintf("dds:preset=tuned,frames=%d,low=%d,high=%d", frames, pair[0], pair[1]))
		}
		for _, preset := range []string{"paper", "repo"} {
			all = append(all, fmt.Sprintf("dds:preset=%s,frames=%d", preset, frames))
		}
	case "awstream":
		for _, part := range []float64{0.04, 0.07, 0.1, 0.15, 0.25, 0.5, 1} {
			add("budget=%.0f", part*rate)
		}
	case "eaar":
		for _, pair := range [][2]int{{44, 32}, {40, 28}, {36, 24}} {
			add("low=%d,qp=%d,objectness=0.1", pair[0], pair[1])
		}
	case "accmpeg":
		for _, pair := range [][2]int{{44, 34}, {40, 30}, {36, 26}, {32, 22}} {
			add("low=%d,qp=%d", pair[0], pair[1])
		}
	case "oneadapt":
		for _, share := range []float64{0.0125, 0.05, 0.2} { // of its paper's sweep
			add("knobs=blocks,preset=repo,share=%g", share)
		}
	case "vigil":
		for _, qp := range []int{24, 30, 36} {
			add("qp=%d", qp)
		}
	case "cloudseg", "reducto":
		for _, qp := range []int{24, 28, 32, 36} {
			add("qp=%d", qp)
		}
	case "glimpse":
		for _, threshold := range []float64{0.02, 0.05, 0.1} {
			all = append(all, fmt.Sprintf("glimpse:threshold=%g", threshold))
		}
	default:
		return []string{name}
	}
	return all
}

// profileFrames is how much of a clip AWStream is profiled on: the first third.
func profileFrames(clip *emulate.Clip) int { return max(1, len(clip.Frames)/3) }

// Profile runs configurations on the first third of a clip, as AWStream does beforehand; what that costs is not counted, as in the paper.
func Profile(tools emulate.Tools, clip *emulate.Clip, frames int, r Rules, each func(string)) (methods.Learned, error) {
	part := *clip
	part.Frames = part.Frames[:profileFrames(clip)]
	lab := emulate.NewLab(tools, &part)
	seconds := float64(len(part.Frames)) / part.Rate
	var all []methods.OperatingPoint
	for _, scale := range []float64{1, 0.8, 0.6} {
		for _, qp := range []int{24, 28, 32, 36, 40, 44} {
			for _, skip := range []int{0, 1} {
				one := methods.OperatingPoint{Quality: videoext.Quality{QP: qp, Scale: scale}, Skip: skip, Rate: 1, Accuracy: 1}
				each("profile " + one.String())
				m, err := methods.New(fmt.Sprintf("awstream:frames=%d,budget=2", frames), methods.Learned{Configurations: []methods.OperatingPoint{one}})
				if err != nil {
					return methods.Learned{}, err
				}
				row, err := Measure(lab, m, Unlimited(), r)
				if err != nil {
					return methods.Learned{}, err
				}
				one.Rate, one.Accuracy = float64(row.Container)/seconds, row.F1DDS
				all = append(all, one)
			}
		}
	}
	return methods.Learned{Configurations: methods.Pareto(slices.Clone(all))}, nil
}
