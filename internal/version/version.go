// Package version says which release of the programs this is.
package version

import (
	"fmt"
	"runtime"
)

// Release is set by the linker.
var Release = "unknown"

// Line is what a program of that name says of its version.
func Line(program string) string {
	return fmt.Sprintf("%s %s (%s, %s/%s)", program, Release, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
