package quantize

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// Smoothing moves a part of the spread of activations into weights before these are rounded: each channel that a norm gives is
// divided by a factor, in the norm's weight, and the columns that it is multiplied with are multiplied by it. (Xiao et al.,
// SmoothQuant, 2023, section 4.)
type Smoothing struct {
	// Peaks returns, by the name of a norm's weight, the largest magnitude that each of its channels has in calibration. It is
	// called once, when nothing but a full disk stands against the run any more.
	Peaks    func(ctx context.Context) (map[string][]float32, error)
	Strength float64 // the paper's alpha, from 0 to 1: how much of the spread is moved
}

// followers are the matrices that what a norm gives is multiplied with, by the ends of their names: those of families that have them fused, and the usual ones.
var followers = map[string][][]string{
	"input_layernorm.weight":          {{"self_attn.qkv_proj.weight"}, {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}},
	"post_attention_layernorm.weight": {{"mlp.gate_up_proj.weight"}, {"mlp.gate_proj.weight", "mlp.up_proj.weight"}},
}

// smoothed is a norm whose weight is to change.
type smoothed struct {
	norm     weights.Entry
	matrices []weights.Entry
}

// listSmoothed lists the norms that matrices follow.
func listSmoothed(entries []weights.Entry) (list []smoothed, err error) {
	byName := map[string]weights.Entry{}
	for _, e := range entries {
		byName[e.Name] = e
	}
	for _, e := range entries {
		for end, names := range followers {
			before, ok := strings.CutSuffix(e.Name, end)
			if _, known := types[e.Type]; !ok || !known || len(e.Shape) != 1 {
				continue
			}
			s := smoothed{norm: e}
			for _, name := range namesThere(names, before, byName) {
				m, ok := byName[before+name]
				if !ok || !isProjection(m) || m.Shape[1] != e.Shape[0] {
					return nil, fmt.Errorf("tensor %q has no matrix %q of %d columns after it", e.Name, before+name, e.Shape[0])
				}
				s.matrices = append(s.matrices, m)
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// namesThere is which of two ways to name the matrices a checkpoint has; the last if none.
func namesThere(ways [][]string, before string, byName map[string]weights.Entry) []string {
	for _, names := range ways {
		if _, ok := byName[before+names[0]]; ok {
			return names
		}
	}
	return ways[len(ways)-1]
}

// smoothNorms sets what norms' weights become, and the factors of matrices.
func (j *job) smoothNorms(entries []weights.Entry) error {
	list, err := listSmoothed(entries)
	if err != nil {
		return err
	}
	for _, s := range list {
		for _, m := range s.matrices {
			j.total += m.Bytes
		}
	}
	peaks, err := j.Smoothing.Peaks(j.ctx)
	if err != nil {
		return err
	}
	j.norms, j.factors = map[string][]byte{}, map[string][]float32{}
	for _, s := range list {
		if len(peaks[s.norm.Name]) != s.norm.Shape[0] {
			return fmt.Errorf("tensor %q has %d channels, calibration has %d", s.norm.Name, s.norm.Shape[0], len(peaks[s.norm.Name]))
		}
		if err := j.smoothNorm(s, peaks[s.norm.Name]); err != nil {
			return err
		}
	}
	j.Smoothed = len(list)
	return nil
}

func (j *job) smoothNorm(s smoothed, peaks []float32) error {
	tops := make([]float32, len(peaks))
	for _, m := range s.matrices {
		err := j.read(newRows(types[m.Type], len(tops), func(values []float32) error {
			for i, v := range values {
				tops[i] = max(tops[i], float32(math.Abs(float64(v))))
			}
			return nil
		}), m)
		if err != nil {
			return err
		}
	}
	var weight bytes.Buffer
	if err := j.checkpoint.Copy(&weight, s.norm.Name, s.norm.Bytes); err != nil {
		return err
	}
	factors := foldNorm(types[s.norm.Type], weight.Bytes(), peaks, tops, j.Smoothing.Strength)
	j.norms[s.norm.Name] = weight.Bytes()
	for _, m := range s.matrices {
		j.factors[m.Name] = factors
	}
	return nil
}

// foldNorm divides a norm's weight by factors peak^strength / top^(1-strength), and returns the factors by which columns must be
// multiplied, which are what the weight was over what it is as it is stored: so that rounding it changes no product.
func foldNorm(typ kernels.DType, weight []byte, peaks, tops []float32, strength float64) []float32 {
	values, factors := make([]float32, len(peaks)), make([]float32, len(peaks))
	kernels.Expand(values, typ, weight)
	stored, one := make([]byte, typ.Size()), make([]float32, 1)
	for i, v := range values {
		factors[i] = 1
		by := math.Pow(float64(peaks[i]), strength) / math.Pow(float64(tops[i]), 1-strength)
		divided := float32(float64(v) / by)
		if !(peaks[i] > 0 && tops[i] > 0) || !isUsableNumber(typ, divided) {
			continue // a channel that is 0 or has no factor stays as it is
		}
		weights.Put(typ, stored, 0, divided)
		kernels.Expand(one, typ, stored)
		if factor := float32(float64(v) / float64(one[0])); isUsableNumber(kernels.F32, factor) {
			factors[i] = factor
			copy(weight[int64(i)*typ.Size():], stored)
		}
	}
	return factors
}

// isUsableNumber says that v is neither lost nor infinite as a number of the type.
func isUsableNumber(typ kernels.DType, v float32) bool {
	least, most := 0x1p-100, 0x1p100
	if typ == kernels.F16 {
		least, most = 0x1p-20, 0x1p15
	}
	magnitude := math.Abs(float64(v))
	return magnitude >= least && magnitude <= most
}
