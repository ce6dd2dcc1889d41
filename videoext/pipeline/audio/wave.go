package audio

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Recording is a spoken digit.
type Recording struct {
	Digit   int
	Speaker string
	Samples []float32 // of 8 kHz; the peak is 1
}

// Recordings reads takes of the Free Spoken Digit Dataset: files DIGIT_SPEAKER_TAKE.wav.
func Recordings(dir string, takes ...int) (all []Recording, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_*_*.wav"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		name := strings.Split(strings.TrimSuffix(filepath.Base(file), ".wav"), "_")
		digit, err := strconv.Atoi(name[0])
		take, failed := strconv.Atoi(name[2])
		if err != nil || failed != nil || len(name) != 3 || !slices.Contains(takes, take) {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		samples, err := decodeWAV(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, Recording{digit, name[1], samples})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no recordings of takes %v; they are those of github.com/Jakobovski/free-spoken-digit-dataset", dir, takes)
	}
	return all, nil
}

// decodeWAV reads a RIFF file of 16-bit PCM, one channel and 8 kHz, and gives samples whose peak is 1.
func decodeWAV(data []byte) ([]float32, error) {
	if len(data) < 12 || string(data[:4]) != "RIFF" || string(data[8:12]) != "WAVE" {
		return nil, fmt.Errorf("it is no RIFF file of sound")
	}
	known := false
	for at := 12; at+8 <= len(data); {
		name, size := string(data[at:at+4]), int(binary.LittleEndian.Uint32(data[at+4:]))
		body := data[at+8:]
		if name == "data" { // its size may be left open
			if !known {
				return nil, fmt.Errorf("its sound comes before its format")
			}
			return decodePCM(body[:min(size, len(body))]), nil
		}
		if size > len(body) {
			return nil, fmt.Errorf("chunk %q of %d bytes has %d", name, size, len(body))
		}
		if name == "fmt " {
			if err := checkFormat(body[:size]); err != nil {
				return nil, err
			}
			known = true
		}
		at += 8 + size + size%2
	}
	return nil, fmt.Errorf("it has no sound")
}

// checkFormat says what is wrong with a format.
func checkFormat(f []byte) error {
	if len(f) < 16 {
		return fmt.Errorf("its format has %d bytes, want 16", len(f))
	}
	kind, channels, hertz, bits := binary.LittleEndian.Uint16(f), binary.LittleEndian.Uint16(f[2:]), binary.LittleEndian.Uint32(f[4:]), binary.LittleEndian.Uint16(f[14:])
	if kind != 1 || channels != 1 || hertz != rate || bits != 16 {
		return fmt.Errorf("it has format %d, %d channels, %d Hz and %d bits; want PCM (1), 1, %d and 16", kind, channels, hertz, bits, rate)
	}
	return nil
}

// decodePCM are samples whose peak is 1.
func decodePCM(data []byte) []float32 {
	samples, peak := make([]float32, len(data)/2), float32(1)
	for i := range samples {
		samples[i] = float32(int16(binary.LittleEndian.Uint16(data[2*i:])))
		peak = max(peak, samples[i], -samples[i])
	}
	for i := range samples {
		samples[i] /= peak
	}
	return samples
}
