package audio

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine/sounds"
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

// decodeWAV reads a WAV file of 8 kHz, and gives samples whose peak is 1.
func decodeWAV(data []byte) ([]float32, error) {
	w, err := sounds.ParseWAV(data)
	if err != nil {
		return nil, err
	}
	if w.Rate() != rate {
		return nil, fmt.Errorf("it has %d samples a second, want %d", w.Rate(), rate)
	}
	samples, peak := make([]float32, w.Frames()), float32(1)/math.MaxInt16
	if n, err := w.Next(context.Background(), samples); n < len(samples) {
		return nil, err
	}
	for _, v := range samples {
		peak = max(peak, v, -v)
	}
	for i := range samples {
		samples[i] /= peak
	}
	return samples, nil
}
