// Package methods has the ways to stream video to a network on a server, and finds them by name, with their settings as text:
// dds:low=40,high=28. Beside DDS and OneAdapt there are those that they are compared with: plain H.264, AWStream, CloudSeg, Vigil,
// EAAR, AccMPEG, Reducto and Glimpse, each after its own paper.
package methods

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Learned is what some methods have to know of a video beforehand.
type Learned struct {
	Configurations []OperatingPoint // of AWStream
	Filter         *FilterProfile   // of Reducto
}

// kind is a method that has a name.
type kind struct {
	name, says string
	// settings names the settings; what it returns makes the method when they are set.
	settings func(s *flag.FlagSet, l *Learned) func() (method.Method, error)
}

// configuration is that of any method.
type configuration interface {
	Check() error
	New() method.Method
}

func newCheckedMethod(c configuration) (method.Method, error) {
	if err := c.Check(); err != nil {
		return method.Method{}, err
	}
	return c.New(), nil
}

var kinds = []kind{
	{"mpeg", "all frames in one quality", func(s *flag.FlagSet, _ *Learned) func() (method.Method, error) {
		c := &Plain{Common: UsualCommon(), Quality: videoext.Quality{QP: 30, Scale: 1}}
		addCommonFlags(s, &c.Common)
		addQualityFlags(s, &c.Quality)
		return func() (method.Method, error) { return newCheckedMethod(c) }
	}},
	{"dds", "all in low quality, and what the server's network is not sure of once more in high quality", ddsSettings},
	{"awstream", "the most accurate of profiled configurations that the link can carry", func(s *flag.FlagSet, l *Learned) func() (method.Method, error) {
		c := DefaultAWStream(l.Configurations)
		addCommonFlags(s, &c.Common)
		s.Float64Var(&c.Budget, "budget", c.Budget, "bytes a second for which one configuration is chosen; 0: they follow the link")
		s.Func("profile", "configurations as qp/scale/skip/bytes/accuracy, joined by +: frames left out after each one, and the bytes a second and accuracy that it has", func(v string) (err error) {
			c.Profile, err = parseProfile(v)
			return err
		})
		return func() (method.Method, error) { return newCheckedMethod(&c) }
	}},
	{"glimpse", "frames that differ from the last one sent; a tracker on the camera follows what was found in them", func(s *flag.FlagSet, _ *Learned) func() (method.Method, error) {
		c := DefaultGlimpse()
		addCommonFlags(s, &c.Common)
		addQualityFlags(s, &c.Quality)
		s.Float64Var(&c.Threshold, "threshold", c.Threshold, "part of the pixels that differ, for a frame to be sent")
		s.DurationVar(&c.Patience, "patience", c.Patience, "that the camera has for an answer")
		return func() (method.Method, error) { return newCheckedMethod(&c) }
	}},
	{"vigil", "what a small network on the camera finds", func(s *flag.FlagSet, _ *Learned) func() (method.Method, error) {
		c := DefaultVigil()
		addCommonFlags(s, &c.Common)
		addQualityFlags(s, &c.High)
		s.IntVar(&c.Outside, "outside", c.Outside, "QP of the rest")
		addScoreFlag(s, &c.Score, "score", "of what the camera's network finds, at least")
		return func() (method.Method, error) { return newCheckedMethod(&c) }
	}},
	{"eaar", "what the server's network saw last in high quality, the rest in low quality", func(s *flag.FlagSet, _ *Learned) func() (method.Method, error) {
		c := DefaultEAAR()
		addCommonFlags(s, &c.Common)
		addQualityFlags(s, &c.High)
		s.IntVar(&c.Low, "low", c.Low, "QP of the rest")
		addScoreFlag(s, &c.Objectness, "objectness", "of regions, at least")
		addScoreFlag(s, &c.Grow, "grow", "by which regions are enlarged on each side, as a part of their size")
		return func() (method.Method, error) { return newCheckedMethod(&c) }
	}},
	{"accmpeg", "macroblocks in which a small network on the camera finds something in high quality, the rest in low quality", func(s *flag.FlagSet, _ *Learned) func() (method.Method, error) {
		c := DefaultAccMPEG()
		addCommonFlags(s, &c.Common)
		addQualityFlags(s, &c.High)
		s.IntVar(&c.Low, "low", c.Low, "QP of the rest")
		addScoreFlag(s, &c.Score, "score", "of a macroblock in high quality, at least: the mean of what is found in the segment's first and last frames")
		return func() (method.Method, error) { return newCheckedMethod(&c) }
	}},
	{"cloudseg", "small frames, which a network on the server enlarges", func(s *flag.FlagSet, _ *Learned) func() (method.Method, error) {
		c := DefaultCloudSeg()
		addCommonFlags(s, &c.Common)
		addQualityFlags(s, &c.Quality)
		s.IntVar(&c.Factor, "factor", c.Factor, "by which the server enlarges")
		return func() (method.Method, error) { return newCheckedMethod(&c) }
	}},
	{"reducto", "frames that differ enough from the last one sent", func(s *flag.FlagSet, l *Learned) func() (method.Method, error) {
		c := Reducto{Common: UsualCommon(), Quality: videoext.Quality{QP: 28, Scale: 1}, Feature: FilterFeature, Profile: l.Filter}
		addCommonFlags(s, &c.Common)
		addQualityFlags(s, &c.Quality)
		s.Func("threshold", "of summed differences, for a frame to be sent (default: as profiled)", func(v string) (err error) {
			c.Threshold, err = strconv.ParseFloat(v, 64)
			c.Profile = nil
			return err
		})
		s.Func("feature", "by which frames are compared: pixel, area or edge (default edge)", func(v string) error {
			i := slices.Index([]string{"pixel", "area", "edge"}, v)
			if i < 0 {
				return errors.New("it is to be pixel, area or edge")
			}
			c.Feature = method.Feature(i)
			return nil
		})
		return func() (method.Method, error) { return newCheckedMethod(&c) }
	}},
	{"oneadapt", "knobs of the encoder, or of a filter of frames, that follow gradients of the server's network", oneAdaptSettings},
}

func ddsSettings(s *flag.FlagSet, _ *Learned) func() (method.Method, error) {
	c := PaperDDS()
	s.Func("preset", "constants of the paper, of the published code (repo), or what does best with detectors of one stage (tuned); it is to be the first setting (default paper)", func(v string) error {
		switch v {
		case "paper":
			c = PaperDDS()
		case "repo":
			c = RepoDDS()
		case "tuned":
			c = TunedDDS()
		default:
			return errors.New("it is to be paper, repo or tuned")
		}
		return nil
	})
	s.IntVar(&c.Frames, "frames", c.Frames, "of a segment")
	s.IntVar(&c.BFrames, "bframes", c.BFrames, "B-frames in a row, at most")
	s.Func("classes", "numbers of the classes that are looked for, joined by +", classListParser(&c.Classes))
	s.IntVar(&c.Low.QP, "low", c.Low.QP, "QP of stream A")
	s.IntVar(&c.High.QP, "high", c.High.QP, "QP of stream B")
	s.Float64Var(&c.Low.Scale, "low-scale", c.Low.Scale, "of the frame's width and height in stream A")
	s.Float64Var(&c.High.Scale, "high-scale", c.High.Scale, "the same in stream B")
	s.IntVar(&c.Outside, "outside", c.Outside, "QP of what is not asked for in stream B; 0: it is black")
	addScoreFlag(s, &c.Objectness, "objectness", "of regions, at least")
	addScoreFlag(s, &c.Sure, "sure", "score above which what was found in stream A is a result")
	addScoreFlag(s, &c.Largest, "largest", "area of a region at most, as a part of the frame")
	s.BoolVar(&c.Blocks, "blocks", c.Blocks, "in black, whole macroblocks are shown")
	addScoreFlag(s, &c.Margin, "margin", "of masks: likelihood of a pixel's class above that of the next, below which it is asked for")
	s.IntVar(&c.Hold, "hold", c.Hold, "frames before and after its own for which a region is asked for, too")
	addScoreFlag(s, &c.Enlarge, "enlarge", "by which regions are enlarged on each side, as a part of their size")
	s.BoolVar(&c.Weak, "weak", c.Weak, "what was found in stream A and is not sure is asked for, too")
	adapt := s.Bool("adapt", false, "both QPs follow the link")
	s.DurationVar(&c.Patience, "patience", c.Patience, "that the server has for stream B")
	return func() (method.Method, error) {
		if *adapt {
			c.Adapt = DefaultDDSAdapt()
		}
		return newCheckedMethod(&c)
	}
}

// ProfileText is AWStream's profile as the setting of that name.
func ProfileText(all []OperatingPoint) string {
	texts := make([]string, len(all))
	for i, o := range all {
		texts[i] = fmt.Sprintf("%d/%g/%d/%.0f/%.4g", o.QP, o.Scale, o.Skip, o.Rate, o.Accuracy)
	}
	return strings.Join(texts, "+")
}

func parseProfile(text string) (all []OperatingPoint, err error) {
	for part := range strings.SplitSeq(text, "+") {
		var o OperatingPoint
		fields := strings.Split(part, "/")
		if len(fields) != 5 {
			return nil, fmt.Errorf("%q is to be qp/scale/skip/bytes/accuracy", part)
		}
		for i, to := range []any{&o.QP, &o.Scale, &o.Skip, &o.Rate, &o.Accuracy} {
			if _, err := fmt.Sscanf(fields[i]+"\n", "%v\n", to); err != nil {
				return nil, fmt.Errorf("%q: %q is no such number: it is to be qp/scale/skip/bytes/accuracy", part, fields[i])
			}
		}
		all = append(all, o)
	}
	return all, nil
}

func addCommonFlags(s *flag.FlagSet, c *Common) {
	s.IntVar(&c.Frames, "frames", c.Frames, "of a segment")
	s.IntVar(&c.BFrames, "bframes", c.BFrames, "B-frames in a row, at most")
	s.DurationVar(&c.MaxBacklog, "backlog", c.MaxBacklog, "how long what waits to be sent may take, before segments are left out")
	s.Func("classes", "numbers of the classes that are looked for, joined by +", classListParser(&c.Classes))
}

func addQualityFlags(s *flag.FlagSet, q *videoext.Quality) {
	s.IntVar(&q.QP, "qp", q.QP, "of what is sent")
	s.Float64Var(&q.Scale, "scale", q.Scale, "of the frame's width and height")
}

// addScoreFlag is a setting from 0 to 1.
func addScoreFlag(s *flag.FlagSet, to *float32, name, says string) {
	s.Func(name, fmt.Sprintf("%s (default %g)", says, *to), func(v string) error {
		f, err := strconv.ParseFloat(v, 32)
		if err != nil || !(f >= 0 && f <= 1) {
			return errors.New("it is to be 0 to 1")
		}
		*to = float32(f)
		return nil
	})
}

func classListParser(to *[]int) func(string) error {
	return func(v string) error {
		*to = nil
		for _, part := range strings.Split(v, "+") {
			n, err := strconv.Atoi(part)
			if err != nil || n < 0 {
				return fmt.Errorf("invalid class %q: want its number", part)
			}
			*to = append(*to, n)
		}
		return nil
	}
}

// Names lists the methods.
func Names() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// New makes a method of a specification: its name and, behind a colon, settings with commas between them. The error names what is
// wrong, and what there is.
func New(specification string, l Learned) (method.Method, error) {
	name, settings, _ := strings.Cut(specification, ":")
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return method.Method{}, fmt.Errorf("there is no method %q; there are %s", name, strings.Join(Names(), ", "))
	}
	s := newFlagSet(name)
	build := kinds[i].settings(s, &l)
	for setting := range strings.SplitSeq(settings, ",") {
		if settings == "" {
			break
		}
		key, value, ok := strings.Cut(setting, "=")
		switch {
		case !ok:
			return method.Method{}, fmt.Errorf("method %s: setting %q is to be name=value", name, setting)
		case s.Lookup(key) == nil:
			return method.Method{}, fmt.Errorf("method %s has no setting %q; it has %s", name, key, strings.Join(settingsOf(s), ", "))
		}
		if err := s.Set(key, value); err != nil {
			return method.Method{}, fmt.Errorf("method %s: %s=%s: %w", name, key, value, err)
		}
	}
	m, err := build()
	if err == nil && m.Frames > media.MaxFrames {
		return m, fmt.Errorf("method %s: segments of %d frames; a segment has at most %d", name, m.Frames, media.MaxFrames)
	}
	return m, err
}

func newFlagSet(name string) *flag.FlagSet {
	s := flag.NewFlagSet(name, flag.ContinueOnError)
	s.SetOutput(io.Discard)
	return s
}

func settingsOf(s *flag.FlagSet) (names []string) {
	s.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// Help says of each method what it does, and of each of its settings.
func Help() string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %s: %s\n", k.name, k.says)
		s := newFlagSet(k.name)
		k.settings(s, &Learned{})
		s.VisitAll(func(f *flag.Flag) {
			value := ""
			if f.DefValue != "" {
				value = " (default " + readableDefault(f.DefValue) + ")"
			}
			fmt.Fprintf(&b, "      %-11s %s%s\n", f.Name, f.Usage, value)
		})
	}
	return b.String()
}

// readableDefault is a default without the zeros that durations have.
func readableDefault(value string) string {
	if d, err := time.ParseDuration(value); err == nil && d > 0 {
		return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
	}
	return value
}
