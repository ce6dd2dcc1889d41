package onnx

import (
	"errors"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// upsampleScales: the scales were an attribute.
func upsampleScales(l *lifter, n *graph.Node) (bool, error) {
	scales, ok := n.Attrs["scales"].([]float64)
	if !ok {
		return false, errors.New("missing attribute scales")
	}
	delete(n.Attrs, "scales")
	setInput(n, 1, l.build.Const("scales", graph.FromFloats(engine.FP32, []int{len(scales)}, scales)))
	return false, nil
}

// liftUpsample makes the operation a Resize, which it was renamed to in opset 10.
func liftUpsample(l *lifter, n *graph.Node) (bool, error) {
	n.Op = "Resize"
	return resizeOfScales(l, n)
}

// resizeOfScales: coordinates were multiplied, and the nearest pixel was the one before when there come more, and
// the one after when there come fewer.
func resizeOfScales(_ *lifter, n *graph.Node) (bool, error) {
	if err := needInputs(n, 2); err != nil {
		return false, err
	}
	n.In = []*graph.Value{n.In[0], nil, n.In[1]}
	mode := graph.Attr(n, "mode", "nearest")
	if mode == "bilinear" {
		mode = "linear"
	}
	n.Attrs = graph.Attrs{"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
	scales := n.In[2].Const
	if scales == nil || mode != "nearest" {
		return false, nil
	}
	more, fewer := false, false
	for _, x := range scales.Floats() {
		more, fewer = more || x > 1, fewer || x < 1
	}
	if more && fewer {
		return false, errors.New("enlarging some dimensions and reducing others by the nearest pixel is not supported before opset 11")
	}
	if fewer {
		n.Attrs["nearest_mode"] = "ceil"
	}
	return false, nil
}

// resizeModes: what was tf_half_pixel_for_nn before opset 13 is another rounding of half_pixel.
func resizeModes(_ *lifter, n *graph.Node) (bool, error) {
	if graph.Attr(n, "coordinate_transformation_mode", "") != "tf_half_pixel_for_nn" {
		return false, nil
	}
	if graph.Attr(n, "mode", "nearest") != "nearest" || graph.Attr(n, "nearest_mode", "round_prefer_floor") != "floor" {
		return false, errors.New("tf_half_pixel_for_nn is only supported with mode nearest and nearest_mode floor")
	}
	n.Attrs["coordinate_transformation_mode"], n.Attrs["nearest_mode"] = "half_pixel", "round_prefer_ceil"
	return false, nil
}

// resizeInputs drops empty constants, which stood for inputs that are not given.
func resizeInputs(_ *lifter, n *graph.Node) (bool, error) {
	for i, v := range n.In {
		if i > 0 && v != nil && v.Const != nil && v.Const.Len() == 0 {
			n.In[i] = nil
		}
	}
	return false, nil
}
