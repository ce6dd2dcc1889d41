// Package demotest makes models of the demo model's shape and with other weights, for tests that need several.
package demotest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine/demo"
)

// Variant writes the n-th variant of the demo model, for n from 1 to 127, to a new directory. No two have a weight in
// common.
func Variant(dir string, n byte) error {
	if err := os.CopyFS(dir, demo.FS()); err != nil {
		return fmt.Errorf("variant of the demo model: %w", err)
	}
	file := filepath.Join(dir, "model.safetensors")
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for i := 8 + binary.LittleEndian.Uint64(content); i < uint64(len(content)); i += 2 { // the lower half of bfloat16
		content[i] ^= n
	}
	return os.WriteFile(file, content, 0o600)
}
