package architecture

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// ropeScalings maps the known values of rope_type to what they do to the frequencies.
var ropeScalings = map[string]func(r *weights.Rope, freq []float32) error{
	"default": func(*weights.Rope, []float32) error { return nil },
	"linear":  scaleLinear,
	"llama3":  scaleLlama3,
}

// ropeFrequencies computes the rotary embedding's inverse frequencies (Su et al. 2021, section
// 3.2.2), in float32 as transformers does.
func ropeFrequencies(c *weights.Config, dim int) ([]float32, error) {
	r := c.RopeParameters
	if r == nil {
		r = c.RopeScaling
	}
	if r == nil {
		r = &weights.Rope{}
	}
	for _, f := range []*float64{c.PartialRotaryFactor, r.PartialRotaryFactor} {
		if f != nil && *f != 1 {
			return nil, fmt.Errorf("partial_rotary_factor is %g; only whole heads are rotated", *f)
		}
	}
	theta := 10000.0
	for _, t := range []*float64{c.RopeTheta, r.Theta} {
		if t != nil {
			theta = *t
		}
	}
	if !(theta > 0) {
		return nil, fmt.Errorf("rope_theta is %g, want a positive number", theta)
	}
	freq := make([]float32, dim/2)
	for i := range freq {
		exponent := float32(2*i) / float32(dim)
		freq[i] = 1 / float32(math.Pow(theta, float64(exponent)))
	}
	kind := r.Type
	if kind == "" {
		kind = r.OldType
	}
	if kind == "" {
		kind = "default"
	}
	scale, ok := ropeScalings[kind]
	if !ok {
		return nil, fmt.Errorf("rope type %q is unknown, want one of %s", kind, strings.Join(slices.Sorted(maps.Keys(ropeScalings)), ", "))
	}
	if err := scale(r, freq); err != nil {
		return nil, fmt.Errorf("rope type %s: %w", kind, err)
	}
	return freq, nil
}

// scaleLinear interpolates positions (Chen et al., Position Interpolation, 2023).
func scaleLinear(r *weights.Rope, freq []float32) error {
	if !(r.Factor >= 1) {
		return fmt.Errorf("factor is %g, want at least 1", r.Factor)
	}
	for i := range freq {
		freq[i] /= float32(r.Factor)
	}
	return nil
}

// scaleLlama3 slows down low frequencies by factor, keeps high ones, and blends between (Grattafiori
// et al. 2024; meta-llama/llama-models, apply_scaling).
func scaleLlama3(r *weights.Rope, freq []float32) error {
	if !(r.Factor >= 1) || !(r.LowFreqFactor > 0) || !(r.HighFreqFactor > r.LowFreqFactor) || !(r.OriginalMaxPositionEmbeddings > 0) {
		return fmt.Errorf("factor %g, low_freq_factor %g, high_freq_factor %g and original_max_position_embeddings %g do not make sense together",
			r.Factor, r.LowFreqFactor, r.HighFreqFactor, r.OriginalMaxPositionEmbeddings)
	}
	factor, low, high := float32(r.Factor), float32(r.LowFreqFactor), float32(r.HighFreqFactor)
	original := float32(r.OriginalMaxPositionEmbeddings)
	for i, f := range freq {
		wavelength := float32(2*math.Pi) / f
		switch {
		case wavelength > original/low:
			freq[i] = f / factor
		case wavelength >= original/high:
			smooth := (original/wavelength - low) / (high - low)
			freq[i] = float32((1-smooth)*f)/factor + float32(smooth*f)
		}
	}
	return nil
}
