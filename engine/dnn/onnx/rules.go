package onnx

import (
	"errors"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

func renameOp(op string) func(*lifter, *graph.Node) (bool, error) {
	return func(_ *lifter, n *graph.Node) (bool, error) {
		n.Op = op
		return false, nil
	}
}

// liftIdentity makes the output another name of the input.
func liftIdentity(l *lifter, n *graph.Node) (bool, error) {
	if len(n.Out) == 0 || n.Out[0] == nil {
		return true, nil
	}
	if err := needInputs(n, 1); err != nil {
		return false, err
	}
	l.alias[n.Out[0]] = n.In[0]
	return true, nil
}

// liftConstant makes the output a constant.
func liftConstant(l *lifter, n *graph.Node) (bool, error) {
	t, err := constantOf(n)
	if err != nil {
		return false, err
	}
	if v := n.Output(0); v != nil {
		v.Set(t.Type, t.Shape)
		v.Const, v.From = t, nil
	}
	return true, nil
}

func constantOf(n *graph.Node) (*graph.Tensor, error) {
	for name, a := range n.Attrs {
		switch a := a.(type) {
		case *graph.Tensor:
			return a, nil
		case float64:
			return graph.Scalar(engine.FP32, a), nil
		case int64:
			return graph.FromInts(engine.Int64, []int{}, []int64{a}), nil
		case []float64:
			return graph.FromFloats(engine.FP32, []int{len(a)}, a), nil
		case []int64:
			return graph.Vector(a...), nil
		default:
			return nil, fmt.Errorf("attribute %s is not supported: want a tensor of numbers", name)
		}
	}
	return nil, errors.New("missing value: want a tensor of numbers")
}

// liftDropout is left out: models are not trained here.
func liftDropout(l *lifter, n *graph.Node) (bool, error) {
	if err := needInputs(n, 1); err != nil {
		return false, err
	}
	if training := n.Input(2); training != nil {
		if training.Const == nil {
			return false, errors.New("training_mode is computed, want a constant")
		}
		if training.Const.Len() != 1 || training.Const.Ints()[0] != 0 {
			return false, errors.New("training mode is not supported, want inference")
		}
	}
	if mask := n.Output(1); mask != nil {
		t := engine.Bool
		if l.opset < 10 {
			t = l.typeOf(n.In[0])
		}
		shape := l.build.Op("Shape", nil, n.In[0])
		ones := l.build.Op("ConstantOfShape", graph.Attrs{"value": graph.FromInts(t, []int{1}, []int64{1})}, shape)
		l.alias[mask] = ones
	}
	return liftIdentity(l, n)
}

func spatialNormalization(_ *lifter, n *graph.Node) (bool, error) {
	if graph.Attr(n, "spatial", int64(1)) == 0 {
		return false, errors.New("spatial=0 is not supported")
	}
	delete(n.Attrs, "spatial")
	return false, nil
}

// trainingOutputs: before opset 14, that more outputs than one are wanted meant training.
func trainingOutputs(_ *lifter, n *graph.Node) (bool, error) {
	if n.Output(3) != nil || n.Output(4) != nil {
		return false, errors.New("outputs saved_mean and saved_var are not supported")
	}
	if n.Output(1) != nil || n.Output(2) != nil {
		n.Attrs["training_mode"] = int64(1)
	}
	n.Out = n.Out[:min(len(n.Out), 3)]
	return false, nil
}

func clipBounds(l *lifter, n *graph.Node) (bool, error) {
	if err := needInputs(n, 1); err != nil {
		return false, err
	}
	for i, name := range []string{"min", "max"} {
		x, ok := n.Attrs[name].(float64)
		delete(n.Attrs, name)
		// The default was the least or greatest float32, which bounds infinities alone.
		if ok && math.Abs(x) < math.MaxFloat32 {
			setInput(n, i+1, l.scalarLike(n.In[0], name, x))
		}
	}
	return false, nil
}

func gridSampleModes(_ *lifter, n *graph.Node) (bool, error) {
	switch graph.Attr(n, "mode", "bilinear") {
	case "bilinear":
		n.Attrs["mode"] = "linear"
	case "bicubic":
		n.Attrs["mode"] = "cubic"
	}
	return false, nil
}

// groupScales repeats the scale and the bias of a group for each of its channels.
func groupScales(l *lifter, n *graph.Node) (bool, error) {
	if err := needInputs(n, 3); err != nil {
		return false, err
	}
	groups := l.integerVector("groups", graph.Attr(n, "num_groups", int64(1)))
	channels := l.build.Op("Shape", graph.Attrs{"start": int64(1), "end": int64(2)}, n.In[0])
	shape := l.build.Op("Concat", graph.Attrs{"axis": int64(0)}, groups, l.build.Op("Div", nil, channels, groups))
	for i := 1; i <= 2; i++ {
		column := l.build.Op("Unsqueeze", nil, n.In[i], l.integerVector("axes", 1))
		n.In[i] = l.build.Op("Reshape", nil, l.build.Op("Expand", nil, column, shape), l.integerVector("shape", -1))
	}
	return false, nil
}

// liftFlattened: before opset 13, these operations worked on rows of all dimensions from an axis on.
func liftFlattened(l *lifter, n *graph.Node) (bool, error) {
	if err := needInputs(n, 1); err != nil {
		return false, err
	}
	axis := graph.Attr(n, "axis", int64(1))
	if axis == -1 {
		return false, nil
	}
	shape := l.build.Op("Shape", nil, n.In[0])
	rows := l.build.Op("Flatten", graph.Attrs{"axis": axis}, n.In[0])
	n.In = []*graph.Value{l.build.Op(n.Op, graph.Attrs{"axis": int64(-1)}, rows), shape}
	n.Op, n.Attrs = "Reshape", graph.Attrs{}
	return false, nil
}

func padInputs(l *lifter, n *graph.Node) (bool, error) {
	if err := needInputs(n, 1); err != nil {
		return false, err
	}
	l.attributeToInput(n, "pads", 1)
	if x, ok := n.Attrs["value"].(float64); ok && x != 0 {
		setInput(n, 2, l.scalarLike(n.In[0], "value", x))
	}
	delete(n.Attrs, "value")
	return false, nil
}

func axesInput(l *lifter, n *graph.Node) (bool, error) {
	l.attributeToInput(n, "axes", 1)
	return false, nil
}

func sliceInputs(l *lifter, n *graph.Node) (bool, error) {
	for i, name := range []string{"starts", "ends", "axes"} {
		l.attributeToInput(n, name, i+1)
	}
	return false, nil
}

func splitInput(l *lifter, n *graph.Node) (bool, error) {
	l.attributeToInput(n, "split", 1)
	return false, nil
}

// splitCount says how many equal parts there are, which was the number of outputs.
func splitCount(_ *lifter, n *graph.Node) (bool, error) {
	if n.Input(1) == nil {
		n.Attrs["num_outputs"] = int64(len(n.Out))
	}
	return false, nil
}

func topKInput(l *lifter, n *graph.Node) (bool, error) {
	k, ok := n.Attrs["k"].(int64)
	if !ok {
		return false, errors.New("missing attribute k")
	}
	delete(n.Attrs, "k")
	setInput(n, 1, l.integerVector("k", k))
	return false, nil
}

func roiCoordinates(_ *lifter, n *graph.Node) (bool, error) {
	if _, ok := n.Attrs["coordinate_transformation_mode"]; !ok {
		n.Attrs["coordinate_transformation_mode"] = "output_half_pixel"
	}
	return false, nil
}
