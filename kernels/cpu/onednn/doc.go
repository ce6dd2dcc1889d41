// Package onednn multiplies bfloat16 matrices with oneDNN, as the yardstick of the CPU backend's
// benchmarks; it builds against the second and the third version of the library's C interface.
// It is apart because it links oneDNN, which the server does not.
package onednn
