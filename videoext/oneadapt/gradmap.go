package oneadapt

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Map is DNNGrad as it goes to the sensor: how much the utility of the network's output changes with the input in each part of it, such as a macroblock: the root of
// the sum of the squares of its derivatives there. Rows go from the top, or there is one alone.
type Map struct {
	Width, Height int
	Values        []float32 // Width x Height; not negative, finite
	Utility       float32   // elements that the network has found
}

// NewMap is a map of zeros.
func NewMap(width, height int) *Map {
	return &Map{Width: width, Height: height, Values: make([]float32, width*height)}
}

// Levels of a value on the wire: the greatest is the highest, each other is a half of the one two above it, and what is less than the lowest is 0.
const (
	levels   = 15
	halfLife = 2
)

// maxParts is how many parts a map may have.
const maxParts = 1 << 20

// mapVersion is the form of a map on the wire.
const mapVersion = 1

// Check says why the map is none that can be reckoned with, such as that of a network whose output is no number.
func (m *Map) Check() error {
	if err := checkSize(m.Width, m.Height); err != nil || len(m.Values) != m.Width*m.Height {
		return errors.Join(err, fmt.Errorf("a gradient of %d x %d parts has %d", m.Width, m.Height, len(m.Values)))
	}
	if !(m.Utility >= 0 && m.Utility <= math.MaxFloat32) {
		return fmt.Errorf("a gradient is of %v elements", m.Utility)
	}
	for _, v := range m.Values {
		if !(v >= 0 && v <= math.MaxFloat32) {
			return fmt.Errorf("a gradient has a part of %v", v)
		}
	}
	return nil
}

// AppendBinary adds the map as it goes over the wire: its version, width and height as varints, the utility and the greatest value as little-endian
// float32, and the levels of the values, two a byte, by DEFLATE.
func (m *Map) AppendBinary(to []byte) ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	most := slices.Max(m.Values)
	to = binary.AppendUvarint(append(to, mapVersion), uint64(m.Width))
	to = binary.AppendUvarint(to, uint64(m.Height))
	to = binary.LittleEndian.AppendUint32(to, math.Float32bits(m.Utility))
	to = binary.LittleEndian.AppendUint32(to, math.Float32bits(most))
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(m.packValues()); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return append(to, b.Bytes()...), nil
}

// Levels are those of the values, from 0 to 15: the greatest has 15, half of it 13, and what is too small or nothing 0. The map has been checked.
func (m *Map) Levels() []byte {
	all, most := make([]byte, len(m.Values)), slices.Max(m.Values)
	for i, v := range m.Values {
		all[i] = valueToLevel(v, most)
	}
	return all
}

// packValues is the levels of the values, two a byte.
func (m *Map) packValues() []byte {
	packed := make([]byte, (len(m.Values)+1)/2)
	for i, l := range m.Levels() {
		packed[i/2] |= l << (4 * (i % 2))
	}
	return packed
}

func valueToLevel(v, most float32) byte {
	if v == 0 {
		return 0
	}
	below := math.Round(halfLife * math.Log2(float64(most)/float64(v)))
	return byte(max(levels-below, 0))
}

// levelToValue is what a level stands for.
func levelToValue(level byte, most float32) float32 {
	if level == 0 {
		return 0
	}
	return float32(float64(most) * math.Exp2(float64(int(level)-levels)/halfLife))
}

func checkSize(width, height int) error {
	if width < 1 || height < 1 || width > maxParts/height {
		return fmt.Errorf("a gradient has %d x %d parts, at most %d are read", width, height, maxParts)
	}
	return nil
}

// ReadMap reads a map from the wire.
func ReadMap(data []byte) (*Map, error) {
	r := bytes.NewReader(data)
	if version, err := r.ReadByte(); err != nil || version != mapVersion {
		return nil, errors.Join(err, fmt.Errorf("a gradient of version %d, this program reads %d", version, mapVersion))
	}
	var head struct{ Utility, Most float32 }
	width, err := binary.ReadUvarint(r)
	height, failed := binary.ReadUvarint(r)
	err = errors.Join(err, failed, binary.Read(r, binary.LittleEndian, &head))
	if err == nil {
		err = checkSize(int(min(width, maxParts+1)), int(min(height, maxParts+1)))
	}
	if err == nil && !(head.Utility >= 0 && head.Utility <= math.MaxFloat32 && head.Most >= 0 && head.Most <= math.MaxFloat32) {
		err = fmt.Errorf("a gradient of %v elements whose greatest part is %v", head.Utility, head.Most)
	}
	if err != nil {
		return nil, err
	}
	m := NewMap(int(width), int(height))
	m.Utility = head.Utility
	return m, m.unpackValues(r, head.Most)
}

// unpackValues reads the values.
func (m *Map) unpackValues(r io.Reader, most float32) error {
	packed := make([]byte, (len(m.Values)+1)/2)
	if _, err := io.ReadFull(flate.NewReader(r), packed); err != nil {
		return fmt.Errorf("a gradient of %d x %d parts: %w", m.Width, m.Height, err)
	}
	for i := range m.Values {
		m.Values[i] = levelToValue(packed[i/2]>>(4*(i%2))&15, most)
	}
	return nil
}

// Spread is the map in which each part has the root of the mean of the squares of all that are at most so many parts away, each way.
func (m *Map) Spread(parts int) *Map {
	to := NewMap(m.Width, m.Height)
	to.Utility = m.Utility
	for i := range to.Values {
		column, row := i%m.Width, i/m.Width
		sum, n := 0.0, 0
		for y := max(row-parts, 0); y <= min(row+parts, m.Height-1); y++ {
			for x := max(column-parts, 0); x <= min(column+parts, m.Width-1); x++ {
				v := float64(m.Values[y*m.Width+x])
				sum, n = sum+v*v, n+1
			}
		}
		to.Values[i] = float32(math.Sqrt(sum / float64(n)))
	}
	return to
}
