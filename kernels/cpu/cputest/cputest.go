// Package cputest opens the processor's backend for tests, and lets them pass over an instruction set only
// where the processor lacks it.
package cputest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cpu"
)

// flags are what /proc/cpuinfo lists of each of cpu.ISAs beyond the one before it.
var flags = map[string][]string{
	"avx2":        {"avx2", "fma", "f16c"},
	"avx512":      {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
	"avx512_bf16": {"avx512_bf16"},
	"amx":         {"amx_tile", "amx_bf16"},
}

// Open makes a backend that the test closes. It fails the test when the backend cannot be opened, and
// skips it where the build has no backend or the kernel says that the processor lacks the set; the
// backend's own detection is not asked.
func Open(t testing.TB, config cpu.Config) *cpu.Backend {
	t.Helper()
	Need(t, config.ISA)
	b, err := cpu.New(config)
	if err != nil {
		t.Fatalf("the processor has what this needs, and yet: %v", err)
	}
	t.Cleanup(b.Close)
	return b
}

// Need skips the test where Open does. An empty set is the least that the backend needs.
func Need(t testing.TB, isa string) {
	t.Helper()
	if !built {
		t.Skip("the processor's backend is not in this build")
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	if missing := missingFlags(string(info), isa); len(missing) > 0 {
		t.Skipf("this processor has no %s", strings.Join(missing, ", "))
	}
}

// missingFlags returns the flags of isa, and of those below it, that the first processor of cpuinfo lacks.
func missingFlags(cpuinfo, isa string) []string {
	var has []string
	for line := range strings.Lines(cpuinfo) {
		if name, list, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			has = strings.Fields(list)
			break
		}
	}
	last := max(0, slices.Index(cpu.ISAs, isa))
	var missing []string
	for _, name := range cpu.ISAs[:last+1] {
		if name == "amx" && amxEmulated {
			continue
		}
		for _, flag := range flags[name] {
			if !slices.Contains(has, flag) {
				missing = append(missing, flag)
			}
		}
	}
	return missing
}
