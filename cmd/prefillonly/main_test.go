package main

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine/demo"
)

// demoDir unpacks the demo model.
func demoDir(t *testing.T) string {
	t.Helper()
	dir, err := demo.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
