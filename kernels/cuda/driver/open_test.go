//go:build cuda

package driver

import (
	"os"
	"strings"
	"testing"
)

// Without a driver the binary starts and Open says what is missing.
func TestOpenWithoutDevice(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("this machine has an NVIDIA driver")
	}
	_, err := Open(0, Options{})
	if err == nil || !strings.Contains(err.Error(), "no device") || !strings.Contains(err.Error(), "580") {
		t.Fatalf("Open without a driver: %v", err)
	}
}
