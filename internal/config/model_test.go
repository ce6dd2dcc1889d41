package config

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// someModels draws a list with every kind of value.
func someModels(rng *rand.Rand) []Model {
	texts := []string{"a", "org/b", "it's: a #model", "\"q\"", "x,y", "ü ☃", "5", "null", "~", "- a", "{}", `back\slash`, "line\nbreak\ttab\x07"}
	text := func() string { return texts[rng.IntN(len(texts))] }
	var list []Model
	for i := range rng.IntN(5) {
		m := Model{Path: text()}
		for j := range rng.IntN(3) {
			m.Names = append(m.Names, fmt.Sprint(text(), i, j))
		}
		if rng.IntN(2) == 0 {
			m.Task, m.Devices, m.ChatTemplate, m.Profile = TaskGenerate, "cuda:0,1", text(), text()
		}
		m.Keep = []Keep{{}, {When: KeepAlways}, {When: KeepOnDemand}, {KeepIdle, time.Duration(rng.Int64N(1e12))}}[rng.IntN(4)]
		m.CacheShare, m.MaxModelLen = float64(rng.IntN(3))/3, Length(rng.IntN(2)*rng.IntN(1<<20))
		if rng.IntN(2) == 0 {
			m.Image = Image{Mean: []float64{rng.Float64(), 1, -2.5}, Order: "BGR", Size: []int{416, 1 + rng.IntN(1000)}, Letterbox: []int{rng.IntN(256)}}
		}
		if rng.IntN(2) == 0 {
			m.Overrides = Overrides{ClassifierFromToken: []string{text(), "1"}, Method: text(), Original: rng.IntN(2) == 0}
			m.Image.Scale, m.Image.Layout, m.Decoder, m.WorkMemory = []float64{255}, "NHWC", text(), Bytes(1+rng.IntN(1<<30))
		}
		list = append(list, m)
	}
	return list
}

// decodeYAML reads what YAML writes.
func decodeYAML(text string) (list modelList, lines []int, err error) {
	tree, err := parseYAML([]byte(text))
	if err != nil || len(tree.Docs) != 1 {
		return nil, nil, fmt.Errorf("%w: want one document", err)
	}
	pairs, err := mappingOf(tree.Docs[0].Body)
	if err != nil || len(pairs) != 1 || pairs[0].Key.GetToken().Value != "models" {
		return nil, nil, fmt.Errorf("%w: want models alone", err)
	}
	return decodeModels(pairs[0].Value)
}

// TestModelsRoundTrip: a list reads back as it was, from one line and from a file.
func TestModelsRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		list := modelList(someModels(rng))
		got := modelList{}
		if err := got.Set(list.String()); err != nil || !reflect.DeepEqual(got, list) {
			t.Fatalf("%s is read as %+v, %v, want %+v", list.String(), got, err, list)
		}
		if len(list) == 0 {
			continue // no file names none
		}
		got, lines, err := decodeYAML(ModelsYAML(list))
		if err != nil || !reflect.DeepEqual(got, list) {
			t.Fatalf("%s is read as %+v, %v", ModelsYAML(list), got, err)
		}
		for i, line := range lines {
			if line != i+2 {
				t.Fatalf("model %d of\n%s is on line %d", i, ModelsYAML(list), line)
			}
		}
	}
}

// TestCheckNames: of two directories of one name, both are told.
func TestCheckNames(t *testing.T) {
	if err := CheckModelNames([]Model{{Names: []string{"m"}, Path: "/a/m"}, {Names: []string{"m"}, Path: "/b/m"}}); err == nil ||
		!strings.Contains(err.Error(), `model 2 (/b/m): the name "m" is already that of model 1 (/a/m)`) || !strings.Contains(err.Error(), "NAME=PATH") {
		t.Errorf("two directories of one name: %v", err)
	}
}

// FuzzModels: no text makes Set panic, and what it reads it shows so that it is read again.
func FuzzModels(f *testing.F) {
	for _, seed := range []string{
		" ", "---", "[]", "[{}]", `[{"path":"./A"},{"name":["a","b"],"path":"B","keep":{"idle":"5m"}}]`, "- path: a\n- path: |\n    b\n", "- - path",
		`[{"path":"\x00\u2028"}]`, "- {path: a, cache-share: .inf}", "- path: ~\n", "- ? path\n  : a", "[{keep: always, max-model-len: 1.5k}]", "--- []\n--- []",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var list, again modelList
		if list.Set(text) != nil {
			return
		}
		if err := again.Set(list.String()); err != nil || fmt.Sprintf("%+v", []Model(again)) != fmt.Sprintf("%+v", []Model(list)) {
			t.Errorf("%q is shown as %s, which is read as %+v, %v, want %+v", text, list.String(), again, err, list)
		}
	})
}

// TestParseImage: what String writes is read again, and mistakes are named.
func TestParseImage(t *testing.T) {
	want := Image{Mean: []float64{1, 2.5, 3}, Scale: []float64{58}, Order: "BGR", Size: []int{416, 640}, Letterbox: []int{114}}
	if got, err := ParseImage(want.String()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s is read as %+v, %v", want.String(), got, err)
	}
	for text, want := range map[string]string{"{mean: x}": "want a number", "{scale: 0}": "invalid scale 0", "[1]": "want a map", "{": "", "{menu: 1}": `"mean"`} {
		if _, err := ParseImage(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
