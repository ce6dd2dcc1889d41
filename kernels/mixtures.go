package kernels

import "fmt"

// Mixtures is a Backend that also computes mixtures of experts: rows are sorted by expert, and what an expert gives goes back to where its
// rows are. Matrices are float32.
type Mixtures interface {
	Backend
	// PickRows sets dst[i] = x[rows[i]].
	PickRows(dst, x Mat, rows []int32)
	// AddScaledRows sets x[rows[i]] += scale[i] * src[i]; rows differ from each other.
	AddScaledRows(x, src Mat, rows []int32, scale []float32)
}

// MixturesOf is b as Mixtures, or an error that names it.
func MixturesOf(b Backend) (Mixtures, error) {
	if m, ok := b.(Mixtures); ok {
		return m, nil
	}
	return nil, fmt.Errorf("%s does not compute mixtures of experts: serve them with --device cpu and without ranks", b.Name())
}
