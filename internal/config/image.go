package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Image says how pictures become the input of a network: resized to Size, their channels in Order, each value v of a
// channel, 0 to 255, as (v - Mean) / Scale.
type Image struct {
	Mean, Scale []float64 // one for all channels, or one for each in Order; none: 0, and 1
	Order       string    // of the channels: RGB or BGR; empty: RGB
	Layout      string    // of the input: NCHW or NHWC; empty: by its shape
	Size        []int     // height and width; none: the input's
	Letterbox   []int     // the grey, 0 to 255, of what is added to keep a picture's proportions; none: it is stretched
}

// imageKeys are the keys of image, with the pointer to set.
var imageKeys = []mapKey[Image]{
	{"mean", func(i *Image) any { return &i.Mean }},
	{"scale", func(i *Image) any { return &i.Scale }},
	{"order", func(i *Image) any { return &i.Order }},
	{"layout", func(i *Image) any { return &i.Layout }},
	{"size", func(i *Image) any { return &i.Size }},
	{"letterbox", func(i *Image) any { return &i.Letterbox }},
}

// String is the image as a map of YAML on one line; empty of the zero value.
func (i *Image) String() string {
	var parts []string
	for _, k := range imageKeys {
		field := k.field(i)
		text := showValue(field)
		if text == "" {
			continue
		}
		if _, word := field.(*string); !word {
			text = "[" + strings.ReplaceAll(text, ",", ", ") + "]"
		}
		parts = append(parts, k.name+": "+text)
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// ParseImage reads a map of YAML on one line, as String writes it.
func ParseImage(text string) (i Image, err error) {
	tree, err := parseYAML([]byte(text))
	if err != nil {
		return i, err
	}
	if len(tree.Docs) != 1 {
		return i, fmt.Errorf("invalid image %q: want a map of its keys", text)
	}
	if err := decodeImage(&i, tree.Docs[0].Body); err != nil {
		return i, err
	}
	return i, i.check()
}

func decodeImage(i *Image, n ast.Node) error {
	return decodeMap(i, n, imageKeys, "{mean: [123.7, 116.3, 103.5], scale: [58.4], order: RGB}")
}

// check says what is out of range.
func (i *Image) check() error {
	for _, list := range []struct {
		name   string
		values []float64
	}{{"mean", i.Mean}, {"scale", i.Scale}} {
		if n := len(list.values); n > 4 {
			return fmt.Errorf("%s has %d values, want one, or one for each channel", list.name, n)
		}
		for _, v := range list.values {
			if v-v != 0 || list.name == "scale" && v == 0 {
				return fmt.Errorf("invalid %s %v: want finite numbers, and a scale other than 0", list.name, v)
			}
		}
	}
	switch {
	case !slices.Contains([]string{"", "RGB", "BGR"}, i.Order):
		return fmt.Errorf("invalid order %q: want RGB or BGR", i.Order)
	case !slices.Contains([]string{"", "NCHW", "NHWC"}, i.Layout):
		return fmt.Errorf("invalid layout %q: want NCHW or NHWC", i.Layout)
	case len(i.Size) != 0 && (len(i.Size) != 2 || min(i.Size[0], i.Size[1]) < 1 || max(i.Size[0], i.Size[1]) > 1<<14):
		return fmt.Errorf("invalid size %v: want a height and a width from 1 to %d", i.Size, 1<<14)
	case len(i.Letterbox) > 1 || len(i.Letterbox) == 1 && (i.Letterbox[0] < 0 || i.Letterbox[0] > 255):
		return fmt.Errorf("invalid letterbox %v: want a grey level from 0 to 255", i.Letterbox)
	}
	return nil
}
