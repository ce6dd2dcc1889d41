package features

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"math"
)

// steps are the settings of a block's quality: by how many levels of 8 bits its quantiser goes, the cheapest first.
var steps = []int{144, 112, 88, 68, 52, 40, 32}

// volume is the features of an interval in 8 bits: of frames, of channels, of rows, of columns.
type volume struct {
	frames, channels, height, width int
	low, unit                       float32 // value = low + unit x level
	centres                         []byte  // of channels: the median of their levels, which quantisers keep
	levels                          []byte
}

// quantiseFeatures is values in 8 bits, over the range they have.
func quantiseFeatures(frames [][]float32, channels, height, width int) *volume {
	v := &volume{frames: len(frames), channels: channels, height: height, width: width}
	low, high := float32(0), float32(0) // of which 0 is one
	for _, f := range frames {
		for _, x := range f {
			low, high = min(low, x), max(high, x)
		}
	}
	v.low, v.unit = low, max((high-low)/255, 1e-9)
	for _, f := range frames {
		for _, x := range f {
			v.levels = append(v.levels, byte(math.Round(float64((x-v.low)/v.unit))))
		}
	}
	for c := range channels {
		v.centres = append(v.centres, v.channelMedian(c))
	}
	return v
}

// channelMedian is that of a channel's levels.
func (v *volume) channelMedian(channel int) byte {
	var counts [256]int
	area := v.height * v.width
	for frame := range v.frames {
		at := (frame*v.channels + channel) * area
		for _, level := range v.levels[at : at+area] {
			counts[level]++
		}
	}
	level, below := 0, counts[0]
	for 2*below < v.frames*area {
		level++
		below += counts[level]
	}
	return byte(level)
}

// levelToValue is what a level stands for.
func (v *volume) levelToValue(level byte) float32 { return v.low + v.unit*float32(level) }

// levelToSymbol is how many steps of a quantiser a level is from its channel's centre.
func levelToSymbol(level, centre byte, step int) int8 {
	return int8(math.Round(float64(int(level)-int(centre)) / float64(step)))
}

// symbolToLevel is what a symbol stands for.
func symbolToLevel(symbol int8, centre byte, step int) byte {
	return byte(max(0, min(255, int(centre)+int(symbol)*step)))
}

// grid parts maps into side x side blocks.
type grid struct{ side int }

func (g grid) blockCount() int { return g.side * g.side }

// blockAt is the block of a place.
func (g grid) blockAt(v *volume, y, x int) int { return y*g.side/v.height*g.side + x*g.side/v.width }

// visitRows calls f for each row of each block, block by block, channel by channel and frame by frame, with the numbers of its first place and of the one behind its last.
func (g grid) visitRows(v *volume, f func(block, channel, frame, from, to int)) {
	for block := range g.blockCount() {
		row, column := block/g.side, block%g.side
		top, bottom := partStart(row, g.side, v.height), partStart(row+1, g.side, v.height)
		left, right := partStart(column, g.side, v.width), partStart(column+1, g.side, v.width)
		for channel := range v.channels {
			for frame := range v.frames {
				for y := top; y < bottom; y++ {
					line := ((frame*v.channels+channel)*v.height + y) * v.width
					f(block, channel, frame, line+left, line+right)
				}
			}
		}
	}
}

// partStart is where one of n parts of so many places begins: at the first that is its.
func partStart(part, n, places int) int { return (part*places + n - 1) / n }

// newLevelTables are, by setting, centre and level, what is made of levels.
func newLevelTables[T any](of func(level, centre byte, step int) T) (t [][256][256]T) {
	t = make([][256][256]T, len(steps))
	for setting, step := range steps {
		for centre := range 256 {
			for level := range 256 {
				t[setting][centre][level] = of(byte(level), byte(centre), step)
			}
		}
	}
	return t
}

var (
	symbols = newLevelTables(levelToSymbol)
	coarse  = newLevelTables(func(at, centre byte, step int) byte {
		return symbolToLevel(levelToSymbol(at, centre, step), centre, step)
	})
)

// symbolStream is the symbols of features, block by block, channel by channel, and in all frames but the first as differences from the frame before. Ends are where each block's
// end.
func (v *volume) symbolStream(g grid, settings []int) (stream []byte, ends []int) {
	stream, ends = make([]byte, 0, len(v.levels)), make([]int, g.blockCount())
	frame := len(v.levels) / v.frames
	g.visitRows(v, func(block, channel, n, from, to int) {
		table := &symbols[settings[block]][v.centres[channel]]
		for i := from; i < to; i++ {
			s := table[v.levels[i]]
			if n > 0 {
				s -= table[v.levels[i-frame]]
			}
			stream = append(stream, byte(s))
		}
		ends[block] = len(stream)
	})
	return stream, ends
}

// encodeFeatures is features as they go over the wire: the range as two little-endian float32, the centres of channels, the settings of blocks, four bits each, and the
// stream by DEFLATE. Shares are the parts of it that blocks take, by the entropy of their symbols.
func (v *volume) encodeFeatures(g grid, settings []int) (data []byte, shares []float64, err error) {
	data = binary.LittleEndian.AppendUint32(nil, math.Float32bits(v.low))
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v.unit))
	data = append(data, v.centres...)
	packed := make([]byte, (g.blockCount()+1)/2)
	for i, s := range settings {
		packed[i/2] |= byte(s) << (4 * (i % 2))
	}
	data = append(data, packed...)
	stream, ends := v.symbolStream(g, settings)
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err != nil {
		return nil, nil, err
	}
	if _, err := w.Write(stream); err != nil {
		return nil, nil, err
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	return append(data, b.Bytes()...), sharesOf(stream, ends), nil
}

// sharesOf parts a stream's size among the blocks.
func sharesOf(stream []byte, ends []int) []float64 {
	shares, from, all := make([]float64, len(ends)), 0, 0.0
	for i, end := range ends {
		shares[i] = 1 + entropy(stream[from:end]) // a block without any information takes something, too
		all += shares[i]
		from = end
	}
	for i := range shares {
		shares[i] /= all
	}
	return shares
}

// entropy is how many bits symbols take that are coded one by one.
func entropy(symbols []byte) (bits float64) {
	var counts [256]int
	for _, s := range symbols {
		counts[s]++
	}
	for _, n := range counts {
		if n > 0 {
			bits += float64(n) * math.Log2(float64(len(symbols))/float64(n))
		}
	}
	return bits
}

// reconstructVolume is what comes out of a decoder.
func (v *volume) reconstructVolume(g grid, settings []int) *volume {
	out := *v
	out.levels = make([]byte, len(v.levels))
	g.visitRows(v, func(block, channel, _, from, to int) {
		table := &coarse[settings[block]][v.centres[channel]]
		for i := from; i < to; i++ {
			out.levels[i] = table[v.levels[i]]
		}
	})
	return &out
}
