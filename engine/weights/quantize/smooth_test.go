package quantize

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/model/calibrate"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// The shape of outlying's model.
const (
	hidden, intermediate = 96, 160
	layers, vocabulary   = 3, 300
)

const modelConfig = `{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu","rms_norm_eps":1e-5,"tie_word_embeddings":true,
 "vocab_size":300,"hidden_size":96,"intermediate_size":160,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":256,"rope_theta":10000}`

// outliers are channels, and how much larger than others norms make them.
var outliers = map[int]float32{5: 30, 41: 100, 70: 60}

// outlying writes a model of random weights in this type with channels that are large behind its norms, and small in the columns
// that these are multiplied with, as is so of trained models.
func outlying(t *testing.T, typ kernels.DType) string {
	t.Helper()
	var tensors []kernels.HostTensor
	add := func(name string, rows, cols int, edit func(i int, v float32) float32) {
		source := weights.Random{Seed: 11, Type: kernels.F32}
		shape := []int{rows, cols}
		if rows == 1 {
			shape = shape[1:]
		}
		tensor, err := source.Tensor(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float32, rows*cols)
		kernels.Expand(values, kernels.F32, tensor.Data)
		tensor.Type, tensor.Data = typ, make([]byte, int64(len(values))*typ.Size())
		for i, v := range values {
			if edit != nil {
				v = edit(i, v)
			}
			weights.Put(typ, tensor.Data, i, v)
		}
		tensors = append(tensors, tensor)
	}
	large := func(i int, v float32) float32 { return v * max(1, outliers[i]) }
	small := func(i int, v float32) float32 { return v / max(1, outliers[i%hidden]) }
	add("model.embed_tokens.weight", vocabulary, hidden, nil)
	for i := range layers {
		name := fmt.Sprintf("model.layers.%d.", i)
		add(name+"input_layernorm.weight", 1, hidden, large)
		add(name+"post_attention_layernorm.weight", 1, hidden, large)
		add(name+"self_attn.q_proj.weight", hidden, hidden, small)
		add(name+"self_attn.k_proj.weight", hidden/2, hidden, small)
		add(name+"self_attn.v_proj.weight", hidden/2, hidden, small)
		add(name+"self_attn.o_proj.weight", hidden, hidden, nil)
		add(name+"mlp.gate_proj.weight", intermediate, hidden, small)
		add(name+"mlp.up_proj.weight", intermediate, hidden, small)
		add(name+"mlp.down_proj.weight", hidden, intermediate, nil)
	}
	add("model.norm.weight", 1, hidden, nil)
	return write(t, tensors)
}

// write writes a checkpoint of outlying's shape in two shards, the norms apart from the matrices behind them.
func write(t *testing.T, tensors []kernels.HostTensor) string {
	t.Helper()
	dir, shards, index := t.TempDir(), map[string][]kernels.HostTensor{}, map[string]string{}
	for _, tensor := range tensors {
		name := "model-00001-of-00002.safetensors"
		if strings.Contains(tensor.Name, "norm") {
			name = "model-00002-of-00002.safetensors"
		}
		shards[name], index[tensor.Name] = append(shards[name], tensor), name
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	for name, tensors := range shards {
		err = errors.Join(err, weights.WriteFile(filepath.Join(dir, name), tensors))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, indexFile), text, 0o600), os.WriteFile(filepath.Join(dir, configFile), []byte(modelConfig), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// prompt is tokens at random.
func prompt(seed, n int) []engine.TokenID {
	tokens, state := make([]engine.TokenID, n), uint32(seed+1)*2654435761
	for i := range tokens {
		state = state*1664525 + 1013904223
		tokens[i] = engine.TokenID(state >> 8 % vocabulary)
	}
	return tokens
}

// peaks calibrates with eight prompts.
func peaks(dir string) func(context.Context) (map[string][]float32, error) {
	return func(ctx context.Context) (map[string][]float32, error) {
		c, err := calibrate.Open(dir, ref.New())
		if err != nil {
			return nil, err
		}
		defer c.Close()
		for i := range 8 {
			if err := c.Add(ctx, fmt.Sprint("prompt ", i), prompt(i, 60)); err != nil {
				return nil, err
			}
		}
		return c.Peaks(ctx)
	}
}

// scores are log-probabilities of every token after each of a few prompts that calibration has not seen.
func scores(t *testing.T, dir string) (list []float64) {
	t.Helper()
	m, err := model.Load(dir, ref.New(), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var labels []engine.TokenID
	for id := range vocabulary {
		labels = append(labels, engine.TokenID(id))
	}
	for i := range 6 {
		pass, err := m.Begin(&wire.Run{Items: []wire.RunItem{{Work: &wire.TokenItem{Tokens: prompt(100+i, 40), Ask: engine.Ask{Labels: labels}}}}})
		if err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			if done, err = pass.Step(); err != nil {
				t.Fatal(err)
			}
		}
		result := pass.Results()[0]
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		for _, l := range result.Output.(*engine.TokenOutput).Answer.Labels {
			list = append(list, float64(l.Logprob))
		}
		pass.Close()
	}
	return list
}

// apart is how far scores are from others: on average, and at worst.
func apart(got, want []float64) (mean, worst float64) {
	for i, v := range got {
		off := math.Abs(v - want[i])
		mean, worst = mean+off/float64(len(got)), max(worst, off)
	}
	return mean, worst
}

// TestSmoothingCorrects: where some channels are much larger than others, a good part of what rounding loses is kept.
func TestSmoothingCorrects(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32} {
		dir := outlying(t, typ)
		want := scores(t, dir)
		lost := map[string]float64{}
		for name, o := range map[string]Options{"rounded": {}, "smoothed": {Smoothing: &Smoothing{peaks(dir), 0.5}}, "smoothed, LM head too": {LMHead: true, Smoothing: &Smoothing{peaks(dir), 0.5}}} {
			to, last, total := filepath.Join(t.TempDir(), "int8"), int64(0), int64(0)
			o.Scheme, o.Progress = W8A8, func(d, of int64) { last, total = d, of }
			result, err := Run(t.Context(), dir, to, o)
			if err != nil {
				t.Fatal(err)
			}
			matrices := 7 * layers
			if o.LMHead {
				matrices++
			}
			if (result.Smoothed == 2*layers) != (o.Smoothing != nil) || result.Matrices != matrices || last != total {
				t.Errorf("%s: %+v, progress of %d in %d", name, result, last, total)
			}
			mean, worst := apart(scores(t, to), want)
			t.Logf("%s, %s: off by %.4f on average, %.4f at worst", typ, name, mean, worst)
			lost[name] = mean
		}
		for _, name := range []string{"smoothed", "smoothed, LM head too"} {
			if lost[name] > lost["rounded"]/3 {
				t.Errorf("%s: %s it is %.4f off, rounded alone %.4f", typ, name, lost[name], lost["rounded"])
			}
		}
	}
}

// TestSmoothingAloneChangesNothing: what norms and matrices become gives, without rounding to codes, what they gave.
func TestSmoothingAloneChangesNothing(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32} {
		for _, strength := range []float64{0, 0.5, 1} {
			dir := outlying(t, typ)
			checkpoint := open(t, dir)
			j := job{Options: Options{Smoothing: &Smoothing{peaks(dir), strength}}, ctx: t.Context(), checkpoint: checkpoint}
			if err := j.smoothNorms(checkpoint.Entries()); err != nil {
				t.Fatal(err)
			}
			var tensors []kernels.HostTensor
			changed := 0
			for _, e := range checkpoint.Entries() {
				var data bytes.Buffer
				if err := j.writeUnquantized(&data, e); err != nil {
					t.Fatal(err)
				}
				cols := e.Shape[len(e.Shape)-1]
				values := make([]float32, int64(data.Len())/typ.Size())
				kernels.Expand(values, typ, data.Bytes())
				tensor := kernels.HostTensor{Name: e.Name, Type: kernels.F32, Rows: len(values) / cols, Cols: cols, Data: make([]byte, 4*len(values))}
				for i, v := range values {
					if factors := j.factors[e.Name]; factors != nil && factors[i%cols] != 1 {
						v *= factors[i%cols]
						changed++
					}
					weights.Put(kernels.F32, tensor.Data, i, v)
				}
				tensors = append(tensors, tensor)
			}
			if changed < 1000 {
				t.Errorf("only %d weights are changed", changed)
			}
			want, worst := scores(t, dir), 0.0
			for i, v := range scores(t, write(t, tensors)) {
				worst = max(worst, math.Abs(v-want[i])/max(1, math.Abs(want[i])))
			}
			if worst > 1e-5 {
				t.Errorf("%s, strength %g: smoothed it is up to %g off, as a part of the log-probability", typ, strength, worst)
			}
			t.Logf("%s, strength %g: off by %.2g at worst; scores are down to %.0f", typ, strength, worst, slices.Min(want))
		}
	}
}

// TestFold: channels have the factors of the paper's equation 4; those that are never there, or whose weight is lost, stay.
func TestFold(t *testing.T) {
	for name, c := range map[string]struct {
		typ                    kernels.DType
		weight, peak, top      float32
		strength, factor, left float64
	}{
		"even":               {kernels.F32, 2, 8, 2, 0.5, 2, 1},
		"all":                {kernels.F32, 2, 8, 2, 1, 8, 0.25},
		"none":               {kernels.F32, 2, 8, 2, 0, 0.5, 4},
		"rounded":            {kernels.BF16, 1, 9, 1, 0.5, 1 / 0.333984375, 0.333984375},
		"never there":        {kernels.F32, 2, 0, 2, 0.5, 1, 2},
		"without weights":    {kernels.F32, 2, 8, 0, 0.5, 1, 2},
		"weight is 0":        {kernels.F32, 0, 8, 2, 0.5, 1, 0},
		"lost in a half":     {kernels.F16, 0x1p-12, 0x1p20, 0x1p-10, 0.5, 1, 0x1p-12},
		"infinite in a half": {kernels.F16, 1, 0x1p-20, 0x1p20, 0.5, 1, 1},
		"no number":          {kernels.F32, 1, float32(math.NaN()), 1, 0.5, 1, 1},
	} {
		data, left := make([]byte, c.typ.Size()), make([]float32, 1)
		weights.Put(c.typ, data, 0, c.weight)
		factors := foldNorm(c.typ, data, []float32{c.peak}, []float32{c.top}, c.strength)
		if kernels.Expand(left, c.typ, data); float64(left[0]) != c.left || math.Abs(float64(factors[0])-c.factor) > 1e-6 {
			t.Errorf("%s: factor %g, weight %g; want %g, %g", name, factors[0], left[0], c.factor, c.left)
		}
	}
}

func TestSmoothingRefuses(t *testing.T) {
	dir := outlying(t, kernels.BF16)
	given := func(edit func(peaks map[string][]float32)) func(context.Context) (map[string][]float32, error) {
		return func(ctx context.Context) (map[string][]float32, error) {
			found, err := peaks(dir)(ctx)
			if err == nil {
				edit(found)
			}
			return found, err
		}
	}
	const norm = "model.layers.1.input_layernorm.weight"
	for want, o := range map[string]Options{
		"invalid smoothing strength 1.5: want 0 to 1":               {Scheme: W8A8, Smoothing: &Smoothing{peaks(dir), 1.5}},
		"invalid smoothing strength NaN: want 0 to 1":               {Scheme: W8A8, Smoothing: &Smoothing{peaks(dir), math.NaN()}},
		"which W8A16 does not have":                                 {Scheme: W8A16, Smoothing: &Smoothing{peaks(dir), 0.5}},
		`tensor "` + norm + `" has 96 channels, calibration has 0`:  {Scheme: W8A8, Smoothing: &Smoothing{given(func(p map[string][]float32) { delete(p, norm) }), 0.5}},
		`tensor "` + norm + `" has 96 channels, calibration has 95`: {Scheme: W8A8, Smoothing: &Smoothing{given(func(p map[string][]float32) { p[norm] = p[norm][1:] }), 0.5}},
		"no prompts": {Scheme: W8A8, Smoothing: &Smoothing{func(context.Context) (map[string][]float32, error) { return nil, errors.New("no prompts") }, 0.5}},
	} {
		beside := t.TempDir()
		if _, err := Run(t.Context(), dir, filepath.Join(beside, "to"), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to hold %q", err, want)
		}
		if left, _ := os.ReadDir(beside); len(left) != 0 {
			t.Errorf("%s: left is %v", want, left)
		}
	}
	entries := slices.DeleteFunc(open(t, dir).Entries(), func(e weights.Entry) bool { return e.Name == "model.layers.1.self_attn.k_proj.weight" })
	if _, err := listSmoothed(entries); err == nil || !strings.Contains(err.Error(), `has no matrix "model.layers.1.self_attn.k_proj.weight" of 96 columns after it`) {
		t.Errorf("a matrix that is missing: %v", err)
	}
}
