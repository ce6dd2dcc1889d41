//go:build !amx_emulated

package cputest

const amxEmulated = false
