// Package networks computes convolutions, pools, element-wise programs and the other operations of
// kernels.Networks in float32 on the threads of package cpu, in versions for AVX2 and AVX-512.
package networks
