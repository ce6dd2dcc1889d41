// Package cpu is the kernels.Backend of x86-64 processors: matrix products, norms, rotary embedding
// and attention in C, in versions for AVX2, AVX-512, AVX-512 BF16 and AMX chosen at run time.
package cpu

import "slices"

// Config says how a backend computes. The zero value uses all of the machine.
type Config struct {
	Threads int    // threads that compute; 0 means one for each core that the process may use
	ISA     string // one of ISAs; "" means the best that the processor has
}

// ISAs names the instruction sets, each a superset of the one before it.
var ISAs = []string{"avx2", "avx512", "avx512_bf16", "amx"}

func isaIndex(name string) int { return slices.Index(ISAs, name) }
