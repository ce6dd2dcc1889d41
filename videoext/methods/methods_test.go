package methods

import (
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method/methodtest"
)

var learned = Learned{Configurations: operatingPoints, Filter: learnedFilter()}

func learnedFilter() *FilterProfile {
	p := &FilterProfile{Target: 0.9, Longest: 1}
	p.Learn([]float64{1, 0.1, 0.1, 0.5}, []float64{0.05, 0.2, 0.4}, func(frames []int) float64 { return float64(len(frames)) / 3 })
	return p
}

func TestAllMethodsHoldToTheContract(t *testing.T) {
	for _, name := range Names() {
		m, err := New(name, learned)
		if err != nil {
			t.Fatal(err)
		}
		if m.Name != name {
			t.Errorf("%s is named %s", name, m.Name)
		}
		if !strings.Contains(Help(), "  "+name+": ") {
			t.Errorf("the help does not name %s", name)
		}
	}
	specs := append(Names(), "dds:preset=repo", "dds:preset=repo,low=40,high=28,weak=false,classes=2+5+7", "dds:preset=tuned", "dds:adapt=true", "dds:adapt=true,outside=45",
		"mpeg:qp=36,scale=0.8", "awstream:budget=30000", "reducto:threshold=0.1", "reducto:feature=area,threshold=0.2")
	for _, knobs := range []string{"blocks", "codec", "filter"} {
		for _, preset := range []string{"paper", "repo", "tuned"} {
			specs = append(specs, "oneadapt:knobs="+knobs+",preset="+preset)
		}
	}
	for _, spec := range specs {
		m, err := New(spec, learned)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(spec, func(t *testing.T) { methodtest.Run(t, m) })
	}
}

func TestSettingsTakeEffect(t *testing.T) {
	for spec, want := range map[string]string{
		"dds:preset=repo,low=40,high=28": "40/28", "dds:low=38": "38/26", "mpeg:qp=33,scale=0.5": "33 at 0.5", "eaar:low=41,objectness=0.25": "41/30 at 0.25",
	} {
		m, err := New(spec, learned)
		if err != nil || m.Setting != want {
			t.Errorf("%s is %q, not %q: %v", spec, m.Setting, want, err)
		}
	}
}

func TestWrongSpecifications(t *testing.T) {
	for spec, want := range map[string]string{
		"":                     "there are mpeg, dds",
		"ddd":                  `no method "ddd"`,
		"dds:lo=3":             "it has adapt, bframes",
		"mpeg:frames=4000":     "at most 3600",
		"oneadapt:alpha=1e308": "a rate of 1e+308",
		"oneadapt:knobs=filter,preset=repo,gain=inf": "a gain of +Inf",
		"dds:low":                               "name=value",
		"dds:low=x":                             "low=x",
		"dds:low=52":                            "QP is to be 0 to 51",
		"dds:preset=mine":                       "paper, repo or tuned",
		"dds:objectness=2":                      "0 to 1",
		"dds:classes=2,5":                       "name=value",
		"dds:classes=car":                       `invalid class "car"`,
		"mpeg:qp=20,scale=0":                    "scale above 0",
		"mpeg:frames=0":                         "segments of 0 frames",
		"awstream":                              "",
		"awstream:budget=-1":                    "budget of -1",
		"awstream:profile=40/0.5/0/10000":       "qp/scale/skip/bytes/accuracy",
		"awstream:profile=40/0.5/0.5/10000/0.5": `"0.5" is no such number`,
		"awstream:profile=40/0.5/0/10000x/0.5":  `"10000x" is no such number`,
		"awstream:profile=60/0.5/0/10000/0.5":   "QP is to be 0 to 51",
		"awstream:profile=40/0.5/-1/10000/0.5":  "leaves out -1 frames",
		"reducto:feature=hue":                   "pixel, area or edge",
	} {
		_, err := New(spec, learned)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, not %q", spec, err, want)
		}
	}
	profile := []OperatingPoint{
		{Quality: videoext.Quality{QP: 40, Scale: 0.5}, Rate: 1e4, Accuracy: 0.5},
		{Quality: videoext.Quality{QP: 24, Scale: 1}, Skip: 1, Rate: 123456, Accuracy: 0.912},
	}
	if text := ProfileText(profile); text != "40/0.5/0/10000/0.5+24/1/1/123456/0.912" {
		t.Errorf("the profile is %q", text)
	} else if back, err := parseProfile(text); err != nil || !slices.Equal(back, profile) {
		t.Errorf("%q is read as %+v, %v", text, back, err)
	} else if m, err := New("awstream:budget=200000,profile="+text, Learned{}); err != nil || m.Setting != "24 at 1, 1 of 2" {
		t.Errorf("with the profile: %q, %v", m.Setting, err)
	}
	if _, err := New("awstream", Learned{}); err == nil || !strings.Contains(err.Error(), "no configurations") {
		t.Errorf("without a profile: %v", err)
	}
}
