package cputest

import (
	"slices"
	"testing"
)

func TestLacks(t *testing.T) {
	const cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu sse2 fma avx2 f16c avx512f avx512dq avx512bw avx512vl\n\nprocessor\t: 1\nflags\t\t: fpu\n"
	for isa, want := range map[string][]string{
		"": nil, "avx2": nil, "avx512": nil, "avx512_bf16": {"avx512_bf16"}, "amx": {"avx512_bf16", "amx_tile", "amx_bf16"},
	} {
		if got := missingFlags(cpuinfo, isa); !amxEmulated && !slices.Equal(got, want) {
			t.Errorf("%q: lacks %v, want %v", isa, got, want)
		}
	}
	if got := missingFlags("", ""); len(got) != 3 {
		t.Errorf("a processor without flags lacks %v", got)
	}
}
