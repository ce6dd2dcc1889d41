package architecture

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// Rotation is how queries and keys are turned by their positions: pairs (i, i+dim/2) of a head, each by its frequency (Su et al. 2021,
// section 3.2.2).
type Rotation struct {
	InvFreq []float32 // of a pair; 0: it is not turned
	Scale   float32   // of what is turned

	Long   []float32 // InvFreq where sequences may be longer than LongAt; nil for the same
	LongAt int
}

// Frequencies are those where sequences have so many tokens at the most. They do not change with a sequence's own length, as its keys would have to, too.
func (r *Rotation) Frequencies(maxLen int) []float32 {
	if r.Long != nil && maxLen > r.LongAt {
		return r.Long
	}
	return r.InvFreq
}

// ropeScalings maps the known values of rope_type to what they do to the frequencies of turned pairs.
var ropeScalings = map[string]func(r *ropeKeys, rotation *Rotation) error{
	"default":  func(*ropeKeys, *Rotation) error { return nil },
	"linear":   scaleLinear,
	"llama3":   scaleLlama3,
	"yarn":     scaleYarn,
	"longrope": scaleLong,
	"su":       scaleLong, // as first files of Phi 3 call it
}

// ropeKeys are what of a configuration decides of the frequencies.
type ropeKeys struct {
	weights.Rope
	theta  float64
	maxLen float64 // max_position_embeddings
}

// readRotations reads those of the layers. A family has said which see no positions (Yang et al., RoPE to NoPE and Back Again, 2025).
func (s *Spec) readRotations(c *weights.Config) error {
	usual, sliding := s.ropeKeys(c)
	rotation, err := readRotation(c, s, usual)
	if err != nil {
		return err
	}
	s.Rotations, s.LayerRotation = []Rotation{rotation}, make([]int, s.Layers)
	if s.sliding != nil && slices.Contains(s.slides, true) {
		if rotation, err = readRotation(c, s, sliding); err != nil {
			return fmt.Errorf("layers with a sliding window: %w", err)
		}
		s.addRotation(rotation, s.slides)
	}
	if slices.Contains(s.unturned, true) {
		s.addRotation(Rotation{InvFreq: make([]float32, s.Heads.Dim/2), Scale: 1}, s.unturned)
	}
	return nil
}

// addRotation adds that of some layers.
func (s *Spec) addRotation(r Rotation, of []bool) {
	for i, is := range of {
		if is {
			s.LayerRotation[i] = len(s.Rotations)
		}
	}
	s.Rotations = append(s.Rotations, r)
}

// slidingRope is what layers with a sliding window have of their own.
type slidingRope struct {
	theta    float64 // 0: that of the others
	unscaled bool    // rope_scaling is of the others alone
}

// ropeKeys are those of layers, and of those with a sliding window. As written by transformers 5, the two may stand side by side.
func (s *Spec) ropeKeys(c *weights.Config) (usual, sliding ropeKeys) {
	usual = ropeKeys{theta: s.theta, maxLen: float64(c.MaxPositionEmbeddings)}
	if r := c.RopeParameters; r != nil {
		usual.Rope = *r
	} else if r := c.RopeScaling; r != nil {
		usual.Rope = *r
	}
	apart := usual.Full != nil && usual.Sliding != nil
	both := usual.Rope
	if apart {
		usual.Rope = *both.Full
	}
	for _, t := range []*float64{c.RopeTheta, usual.Theta} {
		if t != nil {
			usual.theta = *t
		}
	}
	sliding = usual
	if s.sliding == nil {
		return usual, sliding
	}
	if s.sliding.unscaled {
		sliding.Rope = weights.Rope{}
	}
	if s.sliding.theta != 0 {
		sliding.theta = s.sliding.theta
	}
	if apart {
		if sliding.Rope = *both.Sliding; sliding.Theta != nil {
			sliding.theta = *sliding.Theta
		}
	}
	return usual, sliding
}

// readRotation reads a rotation, in float32 as transformers does; by default so many of a head's dimensions are turned.
func readRotation(c *weights.Config, s *Spec, keys ropeKeys) (Rotation, error) {
	if !(keys.theta > 0) {
		return Rotation{}, fmt.Errorf("rope_theta is %g, want a positive number", keys.theta)
	}
	turned, err := turnedDims(c, &keys.Rope, s)
	if err != nil {
		return Rotation{}, err
	}
	keys.OriginalMaxPositionEmbeddings = cmp.Or(c.OriginalMaxPositionEmbeddings, keys.OriginalMaxPositionEmbeddings, keys.maxLen)
	rotation := Rotation{InvFreq: make([]float32, turned/2), Scale: 1}
	for i := range rotation.InvFreq {
		exponent := float32(2*i) / float32(turned)
		rotation.InvFreq[i] = 1 / float32(math.Pow(keys.theta, float64(exponent)))
	}
	kind := cmp.Or(keys.Type, keys.OldType, "default")
	scale, ok := ropeScalings[kind]
	if !ok {
		return Rotation{}, fmt.Errorf("rope type %q is unknown, want one of %s", kind, strings.Join(slices.Sorted(maps.Keys(ropeScalings)), ", "))
	}
	if err := scale(&keys, &rotation); err != nil {
		return Rotation{}, fmt.Errorf("rope type %s: %w", kind, err)
	}
	if !(rotation.Scale >= 1e-3 && rotation.Scale <= 1e3) {
		return Rotation{}, fmt.Errorf("rope type %s: what is turned is scaled by %g, want 0.001 to 1000", kind, rotation.Scale)
	}
	return rotation.widen(s.Heads.Dim), nil
}

// turnedDims is how many of a head's dimensions are turned.
func turnedDims(c *weights.Config, r *weights.Rope, s *Spec) (int, error) {
	part := cmp.Or(s.turnedPart, 1)
	for _, f := range []*float64{c.PartialRotaryFactor, r.PartialRotaryFactor} {
		if f != nil {
			part = *f
		}
	}
	if s.turnedPart == 0 && part != 1 {
		return 0, fmt.Errorf("partial_rotary_factor is %g; this family turns whole heads", part)
	}
	dims := int(float64(s.Heads.Dim) * part)
	if !(part > 0 && part <= 1) || dims < 2 || dims%2 != 0 {
		return 0, fmt.Errorf("partial_rotary_factor is %g, want a number up to 1 that leaves an even part of the %d dimensions of a head to be turned", part, s.Heads.Dim)
	}
	return dims, nil
}

// widen adds the pairs that are not turned.
func (r Rotation) widen(dim int) Rotation {
	for _, freq := range []*[]float32{&r.InvFreq, &r.Long} {
		if *freq != nil {
			*freq = append(*freq, make([]float32, dim/2-len(*freq))...)
		}
	}
	return r
}

// HeadOrder is which of a head's dimensions, as the checkpoint has them, comes to each place, so that those that are turned together are half a head apart; nil: they are.
// Queries and keys in one order give the same products as in another.
func (s *Spec) HeadOrder() []int {
	dim, turned := s.Heads.Dim, 2*s.turnedPairs()
	if turned == 0 || turned == dim && !s.Interleaved {
		return nil
	}
	order, rest := make([]int, dim), turned
	for i := range dim / 2 {
		switch {
		case 2*i >= turned:
			order[i], order[i+dim/2] = rest, rest+1
			rest += 2
		case s.Interleaved:
			order[i], order[i+dim/2] = 2*i, 2*i+1
		default:
			order[i], order[i+dim/2] = i, i+turned/2
		}
	}
	return order
}

// turnedPairs is the most pairs that a layer turns.
func (s *Spec) turnedPairs() (most int) {
	for _, r := range s.Rotations {
		for i, f := range r.InvFreq {
			if f != 0 {
				most = max(most, i+1)
			}
		}
	}
	return most
}

// scaleLinear interpolates positions (Chen et al., Position Interpolation, 2023).
func scaleLinear(r *ropeKeys, rotation *Rotation) error {
	if !(r.Factor >= 1) {
		return fmt.Errorf("factor is %g, want at least 1", r.Factor)
	}
	for i := range rotation.InvFreq {
		rotation.InvFreq[i] /= float32(r.Factor)
	}
	return nil
}

// scaleLlama3 slows down low frequencies by factor, keeps high ones, and blends between (Grattafiori
// et al. 2024; meta-llama/llama-models, apply_scaling).
func scaleLlama3(r *ropeKeys, rotation *Rotation) error {
	if !(r.Factor >= 1) || !(r.LowFreqFactor > 0) || !(r.HighFreqFactor > r.LowFreqFactor) || !(r.OriginalMaxPositionEmbeddings > 0) {
		return fmt.Errorf("factor %g, low_freq_factor %g, high_freq_factor %g and original_max_position_embeddings %g do not make sense together",
			r.Factor, r.LowFreqFactor, r.HighFreqFactor, r.OriginalMaxPositionEmbeddings)
	}
	factor, low, high := float32(r.Factor), float32(r.LowFreqFactor), float32(r.HighFreqFactor)
	original := float32(r.OriginalMaxPositionEmbeddings)
	freq := rotation.InvFreq
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

// scaleYarn slows down frequencies of fewer than beta_slow turns in what the model was trained on, keeps those of more than beta_fast, blends
// between, and scales what is turned (Peng et al., YaRN, 2023, sections 3.2 to 3.4).
func scaleYarn(r *ropeKeys, rotation *Rotation) error {
	fast, slow := cmp.Or(r.BetaFast, 32), cmp.Or(r.BetaSlow, 1)
	if !(r.Factor >= 1) || !(r.OriginalMaxPositionEmbeddings > 0) || !(fast >= slow && slow > 0) || r.theta <= 1 {
		return fmt.Errorf("factor %g, original_max_position_embeddings %g, beta_fast %g and beta_slow %g do not make sense together", r.Factor, r.OriginalMaxPositionEmbeddings, fast, slow)
	}
	pairs := len(rotation.InvFreq)
	dim := func(turns float64) float64 {
		return float64(2*pairs) * math.Log(r.OriginalMaxPositionEmbeddings/(turns*2*math.Pi)) / (2 * math.Log(r.theta))
	}
	low, high := dim(fast), dim(slow)
	if r.Truncate == nil || *r.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(2*pairs-1))
	if low == high {
		high += 0.001
	}
	for i, f := range rotation.InvFreq {
		slowed := min(1, max(0, (float32(i)-float32(low))/float32(high-low)))
		kept := 1 - slowed
		rotation.InvFreq[i] = float32(1/(float32(r.Factor)*(1/f))*(1-kept)) + float32(f*kept)
	}
	rotation.Scale = yarnScale(r)
	return nil
}

func yarnScale(r *ropeKeys) float32 {
	of := func(m float64) float64 {
		if r.Factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(r.Factor) + 1
	}
	switch {
	case r.AttentionFactor != nil:
		return float32(*r.AttentionFactor)
	case r.MScale != 0 && r.MScaleAllDim != 0:
		return float32(of(r.MScale) / of(r.MScaleAllDim))
	}
	return float32(of(1))
}

// scaleLong divides each frequency by a factor of its own, of two lists by the length of sequences, and scales what is turned (Ding et al., LongRoPE, 2024).
func scaleLong(r *ropeKeys, rotation *Rotation) error {
	freq, original := rotation.InvFreq, r.OriginalMaxPositionEmbeddings
	if len(r.ShortFactor) != len(freq) || len(r.LongFactor) != len(freq) {
		return fmt.Errorf("short_factor has %d numbers and long_factor %d, want %d each, half of the dimensions that are turned", len(r.ShortFactor), len(r.LongFactor), len(freq))
	}
	if !(original >= 2 && original <= 1<<28) {
		return fmt.Errorf("original_max_position_embeddings is %g, want a number of tokens", original)
	}
	rotation.LongAt = int(original)
	rotation.Long = slices.Clone(freq)
	for i, f := range freq {
		short, long := float32(r.ShortFactor[i]), float32(r.LongFactor[i])
		if !(short > 0 && long > 0) {
			return fmt.Errorf("short_factor[%d] is %g and long_factor[%d] %g, want positive numbers", i, short, i, long)
		}
		freq[i], rotation.Long[i] = 1/(short*(1/f)), 1/(long*(1/f))
	}
	factor := cmp.Or(r.Factor, r.maxLen/original)
	switch {
	case r.AttentionFactor != nil:
		rotation.Scale = float32(*r.AttentionFactor)
	case factor > 1:
		rotation.Scale = float32(math.Sqrt(1 + math.Log(factor)/math.Log(original)))
	}
	return nil
}
