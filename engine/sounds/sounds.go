// Package sounds makes mono sound of files of WAV, and of sound of one rate that of another. Values are floats, of which 1 is the loudest.
package sounds

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// LeastRate and MostRate bound samples a second, and maxChannels how many a sound has at a time.
const (
	LeastRate   = 1000
	MostRate    = 384000
	maxChannels = 64
)

// ErrFormat is of what is no WAV, or one whose sound is not of plain samples.
var ErrFormat = errors.New("unsupported sound: want WAV of PCM or floats")

// CheckFormat says what is out of bounds of a sound.
func CheckFormat(rate, channels int) error {
	switch {
	case rate < LeastRate || rate > MostRate:
		return fmt.Errorf("invalid rate %d of sound: want %d to %d Hz", rate, LeastRate, MostRate)
	case channels < 1 || channels > maxChannels:
		return fmt.Errorf("invalid number %d of channels: want 1 to %d", channels, maxChannels)
	}
	return nil
}

// Wave is the sound of a WAV file, which stays in the file's bytes.
type Wave struct {
	rate     int
	channels int
	data     []byte // what is not read yet
	bytes    int    // of a sample
	sample   func([]byte) float32
}

// Codes of WAV's formats.
const (
	codePCM        = 1
	codeFloat      = 3
	codeExtensible = 0xfffe
)

// samples read one of so many bits, by the format's code.
var samples = map[[2]int]func([]byte) float32{
	{codePCM, 8}:    func(b []byte) float32 { return float32(int(b[0])-128) / (1 << 7) },
	{codePCM, 16}:   func(b []byte) float32 { return float32(int16(binary.LittleEndian.Uint16(b))) / (1 << 15) },
	{codePCM, 24}:   func(b []byte) float32 { return float32(int32(b[0])<<8|int32(b[1])<<16|int32(b[2])<<24) / (1 << 31) },
	{codePCM, 32}:   func(b []byte) float32 { return float32(int32(binary.LittleEndian.Uint32(b))) / (1 << 31) },
	{codeFloat, 32}: func(b []byte) float32 { return finite(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
	{codeFloat, 64}: func(b []byte) float32 { return finite(float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))) },
}

// finite is v, or silence where a file has no number, and one that can be added up.
func finite(v float32) float32 {
	if v != v {
		return 0
	}
	const most = 1 << 20
	return max(-most, min(most, v))
}

// ParseWAV reads the head of a WAV file. The length that a file says may be wrong, as that of one which was written as it came: it
// has the samples that are there. It fails with ErrFormat where another decoder may read it.
func ParseWAV(file []byte) (*Wave, error) {
	if len(file) < 12 || string(file[:4]) != "RIFF" || string(file[8:12]) != "WAVE" {
		return nil, ErrFormat
	}
	var w *Wave
	for rest := file[12:]; len(rest) >= 8; {
		name, size := string(rest[:4]), int(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:]
		if name == "data" {
			if w == nil {
				return nil, fmt.Errorf("invalid WAV: its samples come before their format")
			}
			w.data = body[:min(size, len(body))]
			return w, nil
		}
		if size > len(body) {
			return nil, fmt.Errorf("invalid WAV: chunk %q of %d bytes has %d", name, size, len(body))
		}
		if name == "fmt " {
			var err error
			if w, err = parseFormat(body[:size]); err != nil {
				return nil, err
			}
		}
		rest = body[min(size+size%2, len(body)):]
	}
	return nil, fmt.Errorf("invalid WAV: it has no samples")
}

func parseFormat(b []byte) (*Wave, error) {
	if len(b) < 16 {
		return nil, fmt.Errorf("invalid WAV: its format has %d bytes, want 16", len(b))
	}
	code, bits, align := int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[14:])), int(binary.LittleEndian.Uint16(b[12:]))
	if code == codeExtensible && len(b) >= 26 {
		code = int(binary.LittleEndian.Uint16(b[24:])) // the beginning of a GUID
	}
	w := &Wave{channels: int(binary.LittleEndian.Uint16(b[2:])), rate: int(binary.LittleEndian.Uint32(b[4:])), bytes: bits / 8, sample: samples[[2]int{code, bits}]}
	if w.sample == nil {
		return nil, ErrFormat
	}
	if err := CheckFormat(w.rate, w.channels); err != nil {
		return nil, err
	}
	if align != w.bytes*w.channels {
		return nil, fmt.Errorf("invalid WAV: %d bytes are said to hold %d channels of %d bits", align, w.channels, bits)
	}
	return w, nil
}

// Rate is how many samples there are in a second.
func (w *Wave) Rate() int { return w.rate }

// Frames is how many samples each channel has, of those that were not read yet.
func (w *Wave) Frames() int { return len(w.data) / (w.bytes * w.channels) }

// Next writes the means of the channels of the samples that come next, and says how many; io.EOF at the end, or why ctx has ended.
func (w *Wave) Next(ctx context.Context, into []float32) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	n := min(len(into), w.Frames())
	if n == 0 {
		return 0, io.EOF
	}
	w.read(into[:n])
	w.data = w.data[n*w.bytes*w.channels:]
	return n, nil
}

// Close does nothing: the file's bytes are another's.
func (w *Wave) Close() {}

func (w *Wave) read(into []float32) {
	data, share := w.data, 1/float32(w.channels)
	for i := range into {
		sum := float32(0)
		for range w.channels {
			sum += w.sample(data)
			data = data[w.bytes:]
		}
		into[i] = sum * share
	}
}
