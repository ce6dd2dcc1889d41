package inference

import (
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/wire"
)

func specOf(specs []wire.TensorSpec, name string) *wire.TensorSpec {
	if i := slices.IndexFunc(specs, func(s wire.TensorSpec) bool { return s.Name == name }); i >= 0 {
		return &specs[i]
	}
	return nil
}

func specNames(specs []wire.TensorSpec) string {
	list := make([]string, len(specs))
	for i := range specs {
		list[i] = specs[i].Name
	}
	return strings.Join(list, ", ")
}

// The platforms of models.
const (
	platformTensors = "onnx_onnxv1"
	platformTokens  = "prefillonly_tokens"
)

// Describe is the metadata of a model by one of its names.
func Describe(name string, m *wire.Served) *oip.Model {
	d := &oip.Model{Name: name, Versions: []string{Version}, Platform: platformTokens, Inputs: []oip.TensorSpec{}, Outputs: []oip.TensorSpec{}}
	if m.Tensors != nil {
		d.Platform, d.Inputs, d.Outputs = platformTensors, tensorSpecs(m.Tensors.Inputs), tensorSpecs(m.Tensors.Outputs)
	}
	return d
}

func tensorSpecs(specs []wire.TensorSpec) []oip.TensorSpec {
	list := make([]oip.TensorSpec, len(specs))
	for i, s := range specs {
		list[i] = oip.TensorSpec{Name: s.Name, Datatype: oip.TypeName(s.Type), Shape: append([]int{}, s.Shape...)}
	}
	return list
}

// Configure is the configuration of a model by one of its names.
func Configure(name string, m *wire.Served, o images.Options) *oip.Config {
	c := &oip.Config{Name: name, Platform: platformTokens, Backend: "prefillonly", Input: []oip.ConfigSpec{}, Output: []oip.ConfigSpec{}}
	if m.Tensors == nil {
		return c
	}
	c.Platform, c.MaxBatchSize = platformTensors, maxBatch(m.Tensors)
	spec := func(s wire.TensorSpec) oip.ConfigSpec {
		dims := s.Shape
		if c.MaxBatchSize > 0 {
			dims = dims[1:]
		}
		return oip.ConfigSpec{Name: s.Name, DataType: "TYPE_" + oip.TypeName(s.Type), Dims: append([]int{}, dims...)}
	}
	for _, s := range m.Tensors.Inputs {
		in := spec(s)
		in.Format = "FORMAT_NONE"
		if to, err := images.NewTarget(s.Type, s.Shape, o); err == nil {
			if in.Format = "FORMAT_NHWC"; to.ChannelsFirst {
				in.Format = "FORMAT_NCHW"
			}
		}
		c.Input = append(c.Input, in)
	}
	for _, s := range m.Tensors.Outputs {
		c.Output = append(c.Output, spec(s))
	}
	return c
}

// maxBatch is the largest batch that clients should ask for: as many frames as a pass takes jobs, or 1 where the batch
// is fixed at that. It is 0 where the first dimensions are no batch.
func maxBatch(t *wire.TensorLimits) int {
	first := func(n int) bool {
		return !slices.ContainsFunc(slices.Concat(t.Inputs, t.Outputs), func(s wire.TensorSpec) bool { return len(s.Shape) == 0 || s.Shape[0] != n })
	}
	switch {
	case first(-1):
		return max(1, t.MaxPassItems)
	case first(1):
		return 1
	}
	return 0
}

// states are the repository's words for the states of models.
var states = map[wire.ModelState]string{
	wire.ModelReady: "READY", wire.ModelLoading: "LOADING", wire.ModelUnloading: "UNLOADING",
	wire.ModelAbsent: "UNAVAILABLE", wire.ModelFailed: "UNAVAILABLE",
}

// Index is a model in the repository's index; a nil m is one that the pool has not told of.
func Index(name string, m *wire.Served) oip.Indexed {
	if m == nil {
		m = &wire.Served{Reason: "no executor serves it yet"}
	}
	i := oip.Indexed{Name: name, Version: Version, State: states[m.State], Reason: m.Reason}
	if m.State == wire.ModelAbsent && i.Reason == "" {
		i.Reason = "it is loaded when a request needs it"
	}
	return i
}
