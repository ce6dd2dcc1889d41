package features

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// decodeVolume reads what encode made of features of this size.
func decodeVolume(data []byte, g grid, frames, channels, height, width int) (*volume, error) {
	const head = 8
	settings := (g.blockCount() + 1) / 2
	if len(data) < head+channels+settings {
		return nil, fmt.Errorf("features of %d bytes", len(data))
	}
	v := &volume{frames: frames, channels: channels, height: height, width: width, levels: make([]byte, frames*channels*height*width)}
	v.low, v.unit = math.Float32frombits(binary.LittleEndian.Uint32(data)), math.Float32frombits(binary.LittleEndian.Uint32(data[4:]))
	if !(v.low <= 0 && v.unit > 0 && v.low >= -256*v.unit && v.unit < math.MaxFloat32/256) {
		return nil, fmt.Errorf("features from %v in steps of %v", v.low, v.unit)
	}
	v.centres = bytes.Clone(data[head : head+channels])
	packed := data[head+channels : head+channels+settings]
	stream := make([]byte, len(v.levels))
	if _, err := io.ReadFull(flate.NewReader(bytes.NewReader(data[head+channels+settings:])), stream); err != nil {
		return nil, fmt.Errorf("features of %d frames: %w", frames, err)
	}
	return v, v.read(g, packed, stream)
}

// read puts a stream's symbols in their places.
func (v *volume) read(g grid, packed, stream []byte) (err error) {
	symbols, frame, next := make([]int8, len(v.levels)), len(v.levels)/v.frames, 0
	g.visitRows(v, func(block, channel, n, from, to int) {
		setting := int(packed[block/2] >> (4 * (block % 2)) & 15)
		if setting >= len(steps) {
			err = fmt.Errorf("block %d has setting %d of %d", block, setting, len(steps))
			return
		}
		for i := from; i < to; i++ {
			if symbols[i] = int8(stream[next]); n > 0 {
				symbols[i] += symbols[i-frame]
			}
			next++
			v.levels[i] = symbolToLevel(symbols[i], v.centres[channel], steps[setting])
		}
	})
	return err
}
