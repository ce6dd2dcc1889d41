package config

import (
	"slices"
	"strings"
	"testing"
)

func TestDevices(t *testing.T) {
	for _, c := range []struct {
		device string
		ranks  int
		want   []string
	}{
		{"cpu", 1, []string{"cpu"}},
		{"cpu", 2, []string{"cpu"}},
		{"null", 1, []string{"null"}},
		{"cuda", 1, []string{"cuda:0"}},
		{"cuda", 2, []string{"cuda:0,1"}},
		{"cuda:3", 1, []string{"cuda:3"}},
		{"cuda:0,1,12", 1, []string{"cuda:0", "cuda:1", "cuda:12"}},
		{"cuda:0,1", 2, []string{"cuda:0,1"}},
		{"cuda:4,1,0,2", 2, []string{"cuda:4,1", "cuda:0,2"}},
		{"cuda:0,1,2", 2, nil},
		{"cuda:0", 2, nil},
		{"cuda:GPU-8932f937-d72c,1", 1, []string{"cuda:GPU-8932f937-d72c", "cuda:1"}},
		{"cuda:GPU-a,GPU-b", 2, []string{"cuda:GPU-a,GPU-b"}},
		{"cuda:GPU-a,GPU-a", 1, nil},
		{"cuda:GPU-", 1, nil},
		{"cuda:GPU-x", 1, nil},
		{"cuda:MIG-1", 1, nil},
		{"cuda:", 1, nil},
		{"cuda:0,", 1, nil},
		{"cuda:1,1", 1, nil}, // two executors on one GPU would each plan for all of its memory
		{"cuda:-1", 1, nil},
		{"cuda:0,cpu", 1, nil},
		{"cuda:1000000", 1, nil},
		{"gpu", 1, nil},
		{"", 1, nil},
	} {
		config := Config{Device: c.device, Ranks: c.ranks}
		if got := config.Devices(); !slices.Equal(got, c.want) {
			t.Errorf("Devices of %q by %d = %q, want %q", c.device, c.ranks, got, c.want)
		}
	}
}

func TestRanksMustFitDevices(t *testing.T) {
	for want, c := range map[string]struct {
		device string
		ranks  int
	}{
		`invalid tensor-parallel-size "0"`: {"cpu", 0},
		`invalid tensor-parallel-size "2" (the command line): want 1 to 64, and 1 on device null`:         {"null", 2},
		`invalid tensor-parallel-size "2" (the command line): want a divisor of the 3 GPUs of cuda:0,1,2`: {"cuda:0,1,2", 2},
		`invalid device "cuda:x"`: {"cuda:x", 2},
	} {
		l := Loaded{Config: Default(), Origin: map[string]string{"tensor-parallel-size": "the command line"}}
		l.Device, l.Ranks = c.device, c.ranks
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s by %d: error %v, want it to hold %q", c.device, c.ranks, err, want)
		}
	}
}

// TestParametersTakeEffect: a parameter that has a flag is not among the flags that are passed over.
func TestParametersTakeEffect(t *testing.T) {
	for _, list := range []map[string]string{ignored, refused} {
		for name := range list {
			if p := Find(name); p != nil && !p.Secret {
				t.Errorf("--%s is a parameter, and yet accepted without effect or refused", name)
			}
		}
	}
}
