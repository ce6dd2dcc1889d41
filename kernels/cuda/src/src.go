// Package src holds the sources of the GPU kernels, for the compiler of CUDA and for simt.
// It is apart because the compiler of CUDA and simt both read the files, and Go embeds what lies below a package's directory alone.
package src

import "embed"

// Files are the sources. A Go package that compiles them imports this one, so that it is built again
// when they change: the go command does not look at what C files include.
//
//go:embed *.cu *.h
var Files embed.FS
