package gradient_test

import (
	"math/rand/v2"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// windowed are random attributes of a window over dimensions of space.
type windowed struct {
	attrs  attrs
	kernel []int
	space  []int
}

// window is one over 1 to 3 dimensions that has a place in them.
func window(rng *rand.Rand, dims int, dilated bool) windowed {
	w := windowed{attrs: attrs{}}
	var strides, dilations, kernel []int64
	pads := make([]int64, 2*dims)
	for i := range dims {
		k, d := 1+rng.IntN(3), 1
		if dilated {
			d += rng.IntN(2)
		}
		w.kernel = append(w.kernel, k)
		w.space = append(w.space, (k-1)*d+1+rng.IntN(4))
		kernel, dilations, strides = append(kernel, int64(k)), append(dilations, int64(d)), append(strides, 1+rng.Int64N(3))
		pads[i], pads[i+dims] = rng.Int64N(int64(k)), rng.Int64N(int64(k))
	}
	w.attrs["strides"], w.attrs["kernel_shape"] = strides, kernel
	if dilated {
		w.attrs["dilations"] = dilations
	}
	switch rng.IntN(5) {
	case 0:
		w.attrs["auto_pad"] = "VALID"
	case 1:
		w.attrs["auto_pad"] = "SAME_UPPER"
	case 2:
		w.attrs["auto_pad"] = "SAME_LOWER"
	default:
		w.attrs["pads"] = pads
	}
	return w
}

// pooled are nodes of a pooling, each with a random one of these attributes.
func pooled(low, high float64, dilated bool, variants ...attrs) []sample {
	return []sample{func(rng *rand.Rand) sampled {
		w := window(rng, 1+rng.IntN(3), dilated)
		for name, v := range variants[rng.IntN(len(variants))] {
			w.attrs[name] = v
		}
		return sampled{attrs: w.attrs, in: []input{between(low, high, append([]int{1 + rng.IntN(2), 1 + rng.IntN(2)}, w.space...)...)}}
	}}
}

// global are nodes of one input with dimensions of space.
func global(variants ...attrs) []sample {
	return []sample{func(rng *rand.Rand) sampled {
		return sampled{attrs: variants[rng.IntN(len(variants))], in: []input{random(dims(rng, 3+rng.IntN(3))...)}}
	}}
}

func convolution(rng *rand.Rand) (w windowed, groups, in, out int) {
	w = window(rng, 1+rng.IntN(3), true)
	groups = 1 + rng.IntN(3)
	w.attrs["group"] = int64(groups)
	if rng.IntN(2) == 0 {
		delete(w.attrs, "kernel_shape")
	}
	return w, groups, groups * (1 + rng.IntN(2)), groups * (1 + rng.IntN(2))
}

var ceiled = attrs{"ceil_mode": int64(1)}

var windows = map[string][]sample{
	"Conv": {func(rng *rand.Rand) sampled {
		w, groups, in, out := convolution(rng)
		s := sampled{attrs: w.attrs, in: []input{
			random(append([]int{1 + rng.IntN(2), in}, w.space...)...),
			random(append([]int{out, in / groups}, w.kernel...)...),
		}}
		if rng.IntN(2) == 0 {
			s.in = append(s.in, random(out))
		}
		return s
	}},
	"ConvTranspose": {transposedConvolution(false), transposedConvolution(true)},
	"MaxPool": append(pooled(-2, 2, true, nil, ceiled), func(rng *rand.Rand) sampled {
		s := pooled(-2, 2, true, nil)[0](rng)
		s.outs = 2
		return s
	}),
	"AveragePool":       pooled(-2, 2, true, nil, ceiled, attrs{"count_include_pad": int64(1)}, attrs{"count_include_pad": int64(1), "ceil_mode": int64(1)}),
	"LpPool":            pooled(-2, 2, true, nil, ceiled, attrs{"p": int64(1)}, attrs{"p": int64(3)}),
	"GlobalAveragePool": global(nil),
	"GlobalMaxPool":     global(nil),
	"GlobalLpPool":      global(nil, attrs{"p": int64(1)}, attrs{"p": int64(3)}),
	"MaxUnpool": {func(rng *rand.Rand) sampled {
		at := graph.FromInts(engine.Int64, []int{1, 1, 2, 2}, []int64{5, 7, 13, 15})
		return sampled{attrs: attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}}, in: []input{random(1, 1, 2, 2), {constant: at}}}
	}},
	"Resize": {resized("scales"), resized("sizes"), cropped},
	"GridSample": {func(rng *rand.Rand) sampled {
		pick := func(words ...string) string { return words[rng.IntN(len(words))] }
		a := attrs{
			"mode": pick("linear", "nearest", "cubic"), "padding_mode": pick("zeros", "border", "reflection"),
			"align_corners": rng.Int64N(2),
		}
		return sampled{attrs: a, in: []input{random(2, 2, 3, 4), between(-1.3, 1.3, 2, 3, 2, 2).kept()}}
	}},
	"LRN": {func(rng *rand.Rand) sampled {
		a := attrs{"size": 1 + rng.Int64N(5), "alpha": .5, "beta": .6, "bias": 1.2}
		return sampled{attrs: a, in: []input{random(dims(rng, 3+rng.IntN(2))...)}}
	}},
}

// transposedConvolution has output_padding, or the shape of its output is given.
func transposedConvolution(shaped bool) sample {
	return func(rng *rand.Rand) sampled {
		w, groups, in, out := convolution(rng)
		strides := w.attrs["strides"].([]int64)
		dilations := w.attrs["dilations"].([]int64)
		extra, shape := make([]int64, len(strides)), make([]int64, len(strides))
		for i, s := range strides {
			if s < dilations[i] || rng.IntN(2) == 0 {
				extra[i] = rng.Int64N(max(s, dilations[i]))
			}
			shape[i] = s*(int64(w.space[i])-1) + 1 + rng.Int64N(3)
		}
		w.attrs["output_padding"] = extra
		if shaped {
			delete(w.attrs, "output_padding")
			w.attrs["output_shape"] = shape
		}
		s := sampled{attrs: w.attrs, in: []input{
			random(append([]int{1 + rng.IntN(2), in}, w.space...)...),
			random(append([]int{in, out / groups}, w.kernel...)...),
		}}
		if rng.IntN(2) == 0 {
			s.in = append(s.in, random(out))
		}
		return s
	}
}

// resized are nodes whose result's shape follows from input 2 or 3.
func resized(by string) sample {
	return func(rng *rand.Rand) sampled {
		x := dims(rng, 2+rng.IntN(3))
		pick := func(words ...string) string { return words[rng.IntN(len(words))] }
		a := attrs{
			"mode":                           pick("nearest", "linear", "cubic"),
			"coordinate_transformation_mode": pick("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
			"nearest_mode":                   pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
		}
		if a["mode"] != "nearest" {
			a["antialias"], a["exclude_outside"] = rng.Int64N(2), rng.Int64N(2)
		}
		scales, sizes := make([]float64, len(x)), make([]int64, len(x))
		for i, d := range x {
			sizes[i] = 1 + rng.Int64N(7)
			scales[i] = (float64(sizes[i]) + .1) / float64(d)
		}
		s := sampled{attrs: a, in: []input{random(x...), absent, {constant: graph.FromFloats(engine.FP32, []int{len(x)}, scales)}}}
		if by == "sizes" {
			s.in = []input{random(x...), absent, absent, ints(sizes...)}
		}
		return s
	}
}

// cropped is a Resize part of which lies outside of its input.
func cropped(rng *rand.Rand) sampled {
	a := attrs{"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.}
	region := graph.FromFloats(engine.FP32, []int{4}, []float64{.2, -.3, .7, 1.1})
	return sampled{attrs: a, in: []input{random(3, 5), {constant: region}, absent, ints(4, 6)}}
}
