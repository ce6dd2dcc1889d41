package kernels

import "fmt"

// Encoders is a Backend that also computes encoders: embeddings of several tables, norms of the residual stream itself, and attention that looks both ways.
// What holds of Backend's operations holds of these, the promise of a row's bits with it; those of AttentionBothWays
// depend on the row's whole sequence.
type Encoders interface {
	Backend
	// AddEmbed adds table[ids[i]] to x[i].
	AddEmbed(x Mat, table Table, ids []uint32)
	// LayerNorm sets dst, float32 or of ActType, to n(x), where n is Centred or none. It may be x.
	LayerNorm(dst, x Mat, n Norm)
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
