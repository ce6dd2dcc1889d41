package media

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
)

const (
	// MacroblockSize is how many pixels a macroblock of H.264 is wide and high.
	MacroblockSize = 16
	// MaxQP is the coarsest quantiser of H.264.
	MaxQP = 51
)

// QPMap gives each macroblock of a frame its quantiser, row by row.
type QPMap struct {
	Columns, Rows int // in macroblocks; those at the right and lower edge may be cut
	QP            []uint8
}

// NewQPMap makes the map of a frame of so many pixels, all of one quantiser.
func NewQPMap(width, height int, qp uint8) *QPMap {
	m := &QPMap{Columns: macroblockCount(width), Rows: macroblockCount(height)}
	m.QP = bytes.Repeat([]byte{qp}, m.Columns*m.Rows)
	return m
}

func macroblockCount(pixels int) int { return (pixels + MacroblockSize - 1) / MacroblockSize }

// Set gives a quantiser to the macroblocks that a rectangle of pixels touches.
func (m *QPMap) Set(r image.Rectangle, qp uint8) {
	m.Each(r, func(block int) { m.QP[block] = qp })
}

// Each calls f with the number of each macroblock that a rectangle of pixels touches.
func (m *QPMap) Each(r image.Rectangle, f func(block int)) {
	if r.Empty() {
		return
	}
	grid := image.Rect(r.Min.X>>4, r.Min.Y>>4, (r.Max.X+15)>>4, (r.Max.Y+15)>>4).Intersect(image.Rect(0, 0, m.Columns, m.Rows))
	for y := grid.Min.Y; y < grid.Max.Y; y++ {
		for x := grid.Min.X; x < grid.Max.X; x++ {
			f(y*m.Columns + x)
		}
	}
}

// Coarse is the map in at most so many cells each way, of equally many macroblocks but for the last ones, each with their mean.
func (m *QPMap) Coarse(most int) *QPMap {
	side := max((m.Columns+most-1)/most, (m.Rows+most-1)/most, 1)
	c := &QPMap{Columns: (m.Columns + side - 1) / side, Rows: (m.Rows + side - 1) / side}
	for y := range c.Rows {
		for x := range c.Columns {
			sum, n := 0, 0
			for row := y * side; row < min((y+1)*side, m.Rows); row++ {
				for column := x * side; column < min((x+1)*side, m.Columns); column++ {
					sum, n = sum+int(m.QP[row*m.Columns+column]), n+1
				}
			}
			c.QP = append(c.QP, uint8((sum+n/2)/n))
		}
	}
	return c
}

// Check says what is wrong with the map, or why it is none of frames of so many pixels.
func (m *QPMap) Check(width, height int) error {
	if m.Columns != macroblockCount(width) || m.Rows != macroblockCount(height) || len(m.QP) != m.Columns*m.Rows {
		return fmt.Errorf("a QP map has %d x %d macroblocks and %d values; frames of %d x %d pixels have %d x %d", m.Columns, m.Rows, len(m.QP), width, height, macroblockCount(width), macroblockCount(height))
	}
	for i, qp := range m.QP {
		if qp > MaxQP {
			return fmt.Errorf("macroblock %d, %d of a QP map has %d; quantisers are 0 to %d", i%m.Columns, i/m.Columns, qp, MaxQP)
		}
	}
	return nil
}

// maxBlocks is how many macroblocks a map may have that comes over a wire: a frame of MaxPixels in any proportion.
const maxBlocks = MaxPixels/MacroblockSize + 2

// AppendBinary appends the map's form for the wire: columns and rows, then the zlib stream of its runs, each a length
// and a quantiser. Numbers are unsigned varints.
func (m *QPMap) AppendBinary(to []byte) ([]byte, error) {
	to = binary.AppendUvarint(to, uint64(m.Columns))
	to = binary.AppendUvarint(to, uint64(m.Rows))
	var runs []byte
	for i := 0; i < len(m.QP); {
		n := 1
		for i+n < len(m.QP) && m.QP[i+n] == m.QP[i] {
			n++
		}
		runs = append(binary.AppendUvarint(runs, uint64(n)), m.QP[i])
		i += n
	}
	out := bytes.NewBuffer(to)
	w := zlib.NewWriter(out)
	if _, err := w.Write(runs); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// ParseQPMap reads the form that AppendBinary writes; nothing may follow it.
func ParseQPMap(data []byte) (*QPMap, error) {
	in := bytes.NewReader(data)
	columns, err1 := binary.ReadUvarint(in)
	rows, err2 := binary.ReadUvarint(in)
	if err1 != nil || err2 != nil || columns == 0 || rows == 0 || columns > maxBlocks || rows > maxBlocks/columns {
		return nil, fmt.Errorf("a QP map of %d bytes says that it has %d x %d macroblocks", len(data), columns, rows)
	}
	m := &QPMap{Columns: int(columns), Rows: int(rows)}
	z, err := zlib.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("a QP map of %d x %d macroblocks: %w", columns, rows, err)
	}
	if err := m.readRuns(z); err != nil {
		return nil, fmt.Errorf("a QP map of %d x %d macroblocks: %w", columns, rows, err)
	}
	if in.Len() != 0 {
		return nil, fmt.Errorf("a QP map of %d x %d macroblocks is followed by %d bytes", columns, rows, in.Len())
	}
	return m, m.Check(m.Columns*MacroblockSize, m.Rows*MacroblockSize)
}

// readRuns fills QP. Runs are no more than blocks, so that neither memory nor time exceed what the map is worth.
func (m *QPMap) readRuns(from io.Reader) error {
	total := m.Columns * m.Rows
	const longest = binary.MaxVarintLen32 + 1 // a run
	runs, err := io.ReadAll(io.LimitReader(from, int64(total)*longest+1))
	if err != nil {
		return err
	}
	for at := 0; at < len(runs); {
		n, size := binary.Uvarint(runs[at:])
		if at += size; size <= 0 || at == len(runs) {
			return errors.New("its last run is cut")
		}
		if n == 0 || n > uint64(total-len(m.QP)) {
			return fmt.Errorf("a run of %d macroblocks begins at macroblock %d", n, len(m.QP))
		}
		m.QP = append(m.QP, bytes.Repeat(runs[at:at+1], int(n))...)
		at++
	}
	if len(m.QP) != total {
		return fmt.Errorf("its runs have %d macroblocks", len(m.QP))
	}
	return nil
}
