// Package raw runs the multiplying instructions of the CPU backend on registers alone, as the yardstick
// of its benchmarks: the rate that no product of matrices can pass.
package raw
