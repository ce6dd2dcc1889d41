package config

import (
	"slices"
	"testing"
)

func TestDevices(t *testing.T) {
	for device, want := range map[string][]string{
		"cpu":          {"cpu"},
		"null":         {"null"},
		"cuda":         {"cuda:0"},
		"cuda:3":       {"cuda:3"},
		"cuda:0,1,12":  {"cuda:0", "cuda:1", "cuda:12"},
		"cuda:":        nil,
		"cuda:0,":      nil,
		"cuda:1,1":     nil, // two executors on one GPU would each plan for all of its memory
		"cuda:-1":      nil,
		"cuda:0,cpu":   nil,
		"cuda:1000000": nil,
		"gpu":          nil,
		"":             nil,
	} {
		c := Config{Device: device}
		if got := c.Devices(); !slices.Equal(got, want) {
			t.Errorf("Devices of %q = %q, want %q", device, got, want)
		}
	}
}
