package model

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/inspect"
)

// TestShowSuggestsADecoder for networks of one picture alone, as far as their outputs are known.
func TestShowSuggestsADecoder(t *testing.T) {
	port := func(typ string, shape ...int) inspect.Port { return inspect.Port{Name: "x", Type: typ, Shape: shape} }
	for name, c := range map[string]struct {
		network inspect.Network
		want    string
	}{
		"YOLOX":                  {inspect.Network{Inputs: []inspect.Port{port("FP32", 1, 3, 416, 416)}, Outputs: []inspect.Port{port("FP32", 1, 3549, 85)}}, "yolox"},
		"channels last":          {inspect.Network{Inputs: []inspect.Port{port("FP32", 1, 257, 257, 3)}, Outputs: []inspect.Port{port("FP32", 1, 257, 257, 21)}}, "segmentation"},
		"a number beside":        {inspect.Network{Inputs: []inspect.Port{port("FP32", -1, 3, 416, 416)}, Outputs: []inspect.Port{port("INT64", 1), port("FP32", -1, 3549, 85)}}, "yolox"},
		"a waveform":             {inspect.Network{Inputs: []inspect.Port{port("FP32", 1, 16000)}, Outputs: []inspect.Port{port("FP32", 1, 49, 85)}}, ""},
		"outputs of any form":    {inspect.Network{Inputs: []inspect.Port{port("FP32", 1, 3, 416, 416)}, Outputs: []inspect.Port{{Name: "x", Type: "FP32"}}}, ""},
		"what cannot be served":  {inspect.Network{Refused: "no", Inputs: []inspect.Port{port("FP32", 1, 3, 416, 416)}, Outputs: []inspect.Port{port("FP32", 1, 3549, 85)}}, ""},
		"a classifier's classes": {inspect.Network{Inputs: []inspect.Port{port("FP32", 1, 3, 224, 224)}, Outputs: []inspect.Port{port("FP32", 1, 1000)}}, ""},
	} {
		if got := strings.Join(outputDecoders(&c.network), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
