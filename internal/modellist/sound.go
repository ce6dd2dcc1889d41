package modellist

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine/sounds"
	"github.com/prefillonly/prefillonly/engine/speech"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// soundFile is beside a network that takes sound, as Hugging Face's have it.
const soundFile = "preprocessor_config.json"

// usualRate is of networks whose folder does not say theirs, in Hz.
const usualRate = 16000

// SoundSettings are how the network of a speech pipeline takes sound.
func SoundSettings(m *config.Model) (s speech.Settings, err error) {
	s.Rate = usualRate
	file := filepath.Join(filepath.Dir(m.Networks.Recognize), soundFile)
	text, err := regular.ReadFile(file, maxAlphabet)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	read := struct {
		Rate      *int `json:"sampling_rate"`
		Normalize bool `json:"do_normalize"`
	}{&s.Rate, false}
	if err := json.Unmarshal(text, &read); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	s.Normalize = read.Normalize
	if err := sounds.CheckFormat(s.Rate, 1); err != nil {
		return s, fmt.Errorf("%s: sampling_rate: %w", file, err)
	}
	return s, nil
}

// vocabulary is an alphabet in JSON: a list of symbols, or a map from each to its place.
func vocabulary(file string, text []byte) (symbols []string, err error) {
	if json.Unmarshal(text, &symbols) == nil && len(symbols) > 0 {
		return symbols, nil
	}
	var places map[string]int
	if err := json.Unmarshal(text, &places); err != nil || len(places) == 0 {
		return nil, fmt.Errorf("alphabet of %s: want a list of symbols, or a map from each to its place", file)
	}
	symbols, there := make([]string, len(places)), make([]bool, len(places))
	for symbol, at := range places {
		if at < 0 || at >= len(places) || there[at] {
			return nil, fmt.Errorf("alphabet of %s: symbol %q has place %d, want each of 0 to %d once", file, symbol, at, len(places)-1)
		}
		symbols[at], there[at] = symbol, true
	}
	return symbols, nil
}
