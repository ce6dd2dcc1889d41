//go:build !cgo || !linux || !amd64

package cputest

const built = false
