package kernels

import "fmt"

// Norm is a layer normalisation, (x - mean) / sqrt(variance + Eps) * Weight + Bias (Ba, Kiros and Hinton, Layer
// Normalization, 2016). Bias may be nil. Without Weight it is none: it leaves x as it is.
type Norm struct {
	Weight, Bias Vector
	Eps          float32
}

// Encoders is a Backend that also computes encoders: layer normalisation, GELU, and attention that looks both ways.
// What holds of Backend's operations holds of these, the promise of a row's bits with it; those of AttentionBothWays
// depend on the row's whole sequence.
type Encoders interface {
	Backend
	// AddEmbed adds table[ids[i]] to x[i].
	AddEmbed(x Mat, table Table, ids []uint32)
	// LayerNorm sets dst, float32 or of ActType, to n(x). It may be x.
	LayerNorm(dst, x Mat, n Norm)
	// LayerNormLinear sets dst, of ActType, to n(x) l^T + bias.
	LayerNormLinear(dst, x Mat, n Norm, l Linear)
	// LayerNormMLP sets x += down(h), where h = act(up(n(x))) or, with a gated up, act(g) * u for (g, u) = up(n(x)).
	LayerNormMLP(x Mat, n Norm, act Activation, up, down Linear)
	// AttentionBothWays is Attention over all of a sequence's positions, whose keys and values are in the segment's
	// blocks; a Window is one to both sides.
	AttentionBothWays(dst, qkv Mat, spec AttentionSpec, blockTokens int, segs []Segment)
}

// EncodersOf is b as Encoders, or an error that names it.
func EncodersOf(b Backend) (Encoders, error) {
	if e, ok := b.(Encoders); ok {
		return e, nil
	}
	return nil, fmt.Errorf("%s does not compute encoders: serve them with --device cpu and without ranks", b.Name())
}
