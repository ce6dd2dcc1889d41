package motion

import "gonum.org/v1/gonum/dsp/fourier"

// spectrum is the Fourier transform of a patch, row by row.
type spectrum []complex128

// transform computes them. It is for one goroutine.
type transform struct {
	fft    *fourier.CmplxFFT
	column []complex128
}

func newTransform() *transform {
	return &transform{fourier.NewCmplxFFT(side), make([]complex128, side)}
}

func conjugate(c complex128) complex128 { return complex(real(c), -imag(c)) }

// transformForward transforms a patch.
func (t *transform) transformForward(patch []float64) spectrum {
	s := make(spectrum, len(patch))
	for i, v := range patch {
		s[i] = complex(v, 0)
	}
	t.transformRowsColumns(s, t.fft.Coefficients)
	return s
}

// transformInverse is the real part of the patch of a spectrum, which it overwrites.
func (t *transform) transformInverse(s spectrum) []float64 {
	t.transformRowsColumns(s, t.fft.Sequence)
	out := make([]float64, len(s))
	for i, c := range s {
		out[i] = real(c) / float64(len(s))
	}
	return out
}

// transformRowsColumns transforms rows, and then columns.
func (t *transform) transformRowsColumns(s spectrum, transform func(to, from []complex128) []complex128) {
	for y := range side {
		transform(s[y*side:(y+1)*side], s[y*side:(y+1)*side])
	}
	for x := range side {
		for y := range side {
			t.column[y] = s[y*side+x]
		}
		transform(t.column, t.column)
		for y := range side {
			s[y*side+x] = t.column[y]
		}
	}
}
