// Package grouped expands matrices whose codes share scales by groups of inputs or by blocks, as GPTQ, AWQ, compressed-tensors'
// pack-quantized and FP8 by blocks store them. It reads no files: a Layout says which tensors there must be, and a Matrix is made of
// their bytes.
package grouped

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// Packing is how codes lie in a tensor.
type Packing uint8

// The packings. Words are I32 and hold as many codes as there is room for, the first one lowest.
const (
	GPTQ   Packing = iota // words [inputs/n, outputs] of inputs that follow one another
	AWQ                   // words [inputs, outputs/n] of outputs in an order of its own
	Packed                // words [outputs, inputs/n] of inputs that follow one another
	FP8                   // E4M3 [outputs, inputs]
)

// Layout is how a matrix is stored. The zero Layout is that of no packing.
type Layout struct {
	Packing Packing
	Bits    int    // of a code: 4 or 8
	Rows    int    // outputs that share scales
	Cols    int    // inputs that do; 0: all
	Zeros   bool   // there are zero points; else a code's is half of its range
	Higher  int    // what a zero point is more than it says
	Ordered bool   // there must be a tensor that gives each input's group
	Scales  string // what the name of the scales ends with
}

// part is a tensor that a matrix is stored in, by what follows the name of the layer.
type part struct {
	suffix   string
	types    []string
	shape    []int
	optional bool
}

// Types of tensors.
var (
	words  = []string{"I32"}
	floats = map[string]kernels.DType{"BF16": kernels.BF16, "F16": kernels.F16, "F32": kernels.F32}
	scales = []string{"BF16", "F16", "F32"}
)

// perWord is how many codes a word holds.
func (l Layout) perWord() int { return 32 / l.Bits }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// groups is how many groups the inputs are in.
func (l Layout) groups(cols int) int {
	if l.Cols == 0 {
		return 1
	}
	return ceilDiv(cols, l.Cols)
}

// Codes is what the name of the tensor of codes ends with.
func (l Layout) Codes() string {
	return [...]string{".qweight", ".qweight", ".weight_packed", ".weight"}[l.Packing]
}

// parts are the tensors of a matrix: its codes, scales, zero points and groups, as far as there are such.
func (l Layout) parts(rows, cols int) []part {
	n, groups := l.perWord(), l.groups(cols)
	switch l.Packing {
	case GPTQ:
		return []part{
			{l.Codes(), words, []int{cols / n, rows}, false}, {l.Scales, scales, []int{groups, rows}, false},
			{".qzeros", words, []int{groups, rows / n}, false}, {".g_idx", words, []int{cols}, !l.Ordered},
		}
	case AWQ:
		return []part{
			{l.Codes(), words, []int{cols, rows / n}, false}, {l.Scales, scales, []int{groups, rows}, false},
			{".qzeros", words, []int{groups, rows / n}, false},
		}
	case Packed:
		list := []part{
			{l.Codes(), words, []int{rows, ceilDiv(cols, n)}, false}, {l.Scales, scales, []int{rows, groups}, false},
			{".weight_zero_point", words, []int{ceilDiv(rows, n), groups}, false}, {".weight_g_idx", words, []int{cols}, !l.Ordered},
		}
		if !l.Zeros {
			list = slices.Delete(list, 2, 3)
		}
		return list
	}
	return []part{{l.Codes(), []string{"F8_E4M3"}, []int{rows, cols}, false}, {l.Scales, scales, []int{ceilDiv(rows, l.Rows), groups}, false}}
}

// Names lists the tensors that a matrix may be stored in.
func (l Layout) Names(module string) (names []string) {
	for _, p := range l.parts(0, 0) {
		names = append(names, module+p.suffix)
	}
	return names
}

// Stored is a tensor of a file.
type Stored struct {
	Type  string // as safetensors writes it
	Shape []int
}

// Check says which tensors hold a matrix, in the order that NewMatrix takes their bytes in, or which of them is missing or is not what the layout asks
// for. Find finds a tensor by its name.
func (l Layout) Check(module string, rows, cols int, find func(name string) (Stored, bool)) (names []string, err error) {
	if n := l.perWord(); l.Packing <= AWQ && (rows%n != 0 || l.Packing == GPTQ && cols%n != 0) {
		return nil, fmt.Errorf("tensor %q packs [%d %d] in %d bits: want multiples of %d", module+l.Codes(), rows, cols, l.Bits, n)
	}
	for _, p := range l.parts(rows, cols) {
		name := module + p.suffix
		t, ok := find(name)
		switch {
		case !ok && p.optional:
			name = ""
		case !ok:
			return nil, fmt.Errorf("missing tensor %q of a quantised weight, by config.json", name)
		case !slices.Contains(p.types, t.Type):
			return nil, fmt.Errorf("tensor %q is %s, want %s", name, t.Type, joinTypes(p.types))
		case !slices.Equal(t.Shape, p.shape):
			return nil, fmt.Errorf("tensor %q has shape %v, want %v: %s, by config.json", name, t.Shape, p.shape, l.describe(rows, cols))
		}
		names = append(names, name)
	}
	return names, nil
}

func joinTypes(types []string) string {
	if len(types) == 1 {
		return types[0]
	}
	return "BF16, F16 or F32"
}

// describe says of what shape a matrix is, and how it is divided.
func (l Layout) describe(rows, cols int) string {
	shape := fmt.Sprintf("[%d %d] in %d bits", rows, cols, l.Bits)
	switch {
	case l.Cols == 0:
		return shape + ", a scale for each row"
	case l.Rows == 1:
		return fmt.Sprintf("%s, in groups of %d", shape, l.Cols)
	}
	return fmt.Sprintf("%s, in blocks of %d x %d", shape, l.Rows, l.Cols)
}

// Matrix is a matrix's codes, scales, zero points and groups.
type Matrix struct {
	layout     Layout
	rows, cols int
	groups     int
	codes      []byte
	zeros      []byte
	scales     []float32
	group      []int32 // of each input; nil: they come in order
	kept       *kernels.Groups
}

// Tensor is a tensor of a file with its elements.
type Tensor struct {
	Name string
	Stored
	Data []byte
}

// NewMatrix makes a matrix of tensors that Check has passed, and in its order; one without a name is not there. It refuses scales that are not finite
// and groups that do not exist.
func (l Layout) NewMatrix(rows, cols int, tensors []Tensor) (*Matrix, error) {
	m := &Matrix{layout: l, rows: rows, cols: cols, groups: l.groups(cols), codes: tensors[0].Data}
	m.scales = make([]float32, len(tensors[1].Data)/int(floats[tensors[1].Type].Size()))
	kernels.Expand(m.scales, floats[tensors[1].Type], tensors[1].Data)
	for i, v := range m.scales {
		if v-v != 0 {
			return nil, fmt.Errorf("tensor %q: element %d is %v, want a finite number", tensors[1].Name, i, v)
		}
	}
	rest := tensors[2:]
	if l.Packing <= AWQ || l.Zeros {
		m.zeros, rest = rest[0].Data, rest[1:]
	}
	if len(rest) > 0 && rest[0].Name != "" {
		if err := m.readGroups(rest[0]); err != nil {
			return nil, err
		}
	}
	m.keepGroups()
	return m, nil
}

// readGroups reads each input's group. Where compressed-tensors has ordered no inputs, all are -1.
func (m *Matrix) readGroups(t Tensor) error {
	m.group = make([]int32, m.cols)
	unordered := true
	for i := range m.group {
		m.group[i] = int32(binary.LittleEndian.Uint32(t.Data[4*i:]))
		unordered = unordered && m.group[i] == -1
	}
	if unordered && m.layout.Packing == Packed {
		m.group = nil
		return nil
	}
	ordered := true
	for i, g := range m.group {
		ordered = ordered && int(g)*m.layout.Cols <= i && i < (int(g)+1)*m.layout.Cols
		if g < 0 || int(g) >= m.groups {
			return fmt.Errorf("tensor %q: element %d is %d, want a group of 0 to %d", t.Name, i, g, m.groups-1)
		}
	}
	if ordered || m.groups == 1 {
		m.group = nil
	}
	return nil
}

// Kept is how many inputs share a scale where codes of four bits can be multiplied as they are, group after group.
func (l Layout) Kept(cols int) (group int, ok bool) {
	if group = l.Cols; group == 0 {
		group = cols + cols%2
	}
	return group, l.Packing != FP8 && l.Bits == 4 && !l.Ordered && group%2 == 0
}

// keepGroups makes room for codes that are Kept, and sets their scales and zero points.
func (m *Matrix) keepGroups() {
	group, ok := m.layout.Kept(m.cols)
	if !ok || m.group != nil {
		return
	}
	m.kept = &kernels.Groups{Codes: make([]byte, m.rows*m.cols), Cols: group, Scale: make([]float32, 0, m.rows*m.groups), Zero: make([]byte, 0, m.rows*m.groups)}
	for i := range m.rows {
		for g := range m.groups {
			m.kept.Scale, m.kept.Zero = append(m.kept.Scale, m.scale(i, g)), append(m.kept.Zero, byte(m.zero(i, g)))
		}
	}
}

// Groups are the codes of rows that were expanded, with their scales and zero points; nil where they are not Kept.
func (m *Matrix) Groups() *kernels.Groups { return m.kept }

// ExpandRow keeps the codes of row i, where they are Kept, and sets dst to it: each code less its zero point, times its scale, rounded once to float32. It refuses what is not
// finite. It may be called for several rows at once.
func (m *Matrix) ExpandRow(dst []float32, i int) error {
	if m.layout.Packing == FP8 {
		m.expandFP8(dst, i)
	} else {
		m.expandWords(dst, i)
	}
	for j, v := range dst {
		if v-v != 0 {
			return fmt.Errorf("element [%d %d] is %v, want a finite number", i, j, v)
		}
	}
	return nil
}

func (m *Matrix) expandFP8(dst []float32, i int) {
	kernels.Expand(dst, kernels.F8E4M3, m.codes[i*m.cols:(i+1)*m.cols])
	for j := range dst {
		dst[j] *= m.scales[i/m.layout.Rows*m.groups+j/m.layout.Cols]
	}
}

func (m *Matrix) expandWords(dst []float32, i int) {
	unit, zero := make([]float32, m.groups), make([]float32, m.groups)
	for g := range unit {
		unit[g], zero[g] = m.scale(i, g), m.zero(i, g)
	}
	m.readCodes(dst, i)
	if m.kept != nil {
		for j, q := range dst {
			m.kept.Codes[i*m.cols+j] = byte(q)
		}
	}
	if m.group != nil {
		for j, g := range m.group {
			dst[j] = (dst[j] - zero[g]) * unit[g]
		}
		return
	}
	width := m.layout.Cols
	if width == 0 {
		width = m.cols
	}
	for g := range unit {
		part := dst[g*width : min((g+1)*width, m.cols)]
		for j, q := range part {
			part[j] = (q - zero[g]) * unit[g]
		}
	}
}

// scale is that of row i in group g.
func (m *Matrix) scale(i, g int) float32 {
	if m.layout.Packing == Packed {
		return m.scales[i*m.groups+g]
	}
	return m.scales[g*m.rows+i]
}

// zero is the zero point of row i in group g.
func (m *Matrix) zero(i, g int) float32 {
	n := m.layout.perWord()
	switch {
	case m.zeros == nil:
		return float32(int(1) << (m.layout.Bits - 1))
	case m.layout.Packing == Packed:
		return float32(m.code(m.zeros, i/n*m.groups+g, i%n))
	}
	return float32(m.code(m.zeros, g*(m.rows/n)+i/n, m.place(i%n)) + m.layout.Higher)
}

// awqPlaces is where in a word AWQ keeps each of eight outputs.
var awqPlaces = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

// place is where in a word of several outputs one of them is.
func (m *Matrix) place(i int) int {
	if m.layout.Packing == AWQ {
		return awqPlaces[i]
	}
	return i
}

// code is the one at a place of a word.
func (m *Matrix) code(from []byte, word, place int) int {
	return int(binary.LittleEndian.Uint32(from[4*word:])>>(place*m.layout.Bits)) & (1<<m.layout.Bits - 1)
}

// readCodes sets dst to the codes of row i, as they are stored.
func (m *Matrix) readCodes(dst []float32, i int) {
	n, mask := m.layout.perWord(), uint32(1)<<m.layout.Bits-1
	if m.layout.Packing == AWQ {
		shift, at, step := m.place(i%n)*m.layout.Bits, 4*(i/n), 4*(m.rows/n)
		for j := range dst {
			dst[j] = float32(binary.LittleEndian.Uint32(m.codes[at:]) >> shift & mask)
			at += step
		}
		return
	}
	at, step := 4*i, 4*m.rows
	if m.layout.Packing == Packed {
		at, step = 4*i*ceilDiv(m.cols, n), 4
	}
	for j := 0; j < len(dst); j += n {
		word := binary.LittleEndian.Uint32(m.codes[at:])
		for k := range dst[j:min(j+n, len(dst))] {
			dst[j+k] = float32(word & mask)
			word >>= m.layout.Bits
		}
		at += step
	}
}
