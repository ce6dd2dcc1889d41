package weights

import (
	"path/filepath"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/engine/weights/gguf/gguftest"
)

// BenchmarkGGUFExpand expands a matrix of each kind of blocks from the page cache; SetBytes counts elements.
func BenchmarkGGUFExpand(b *testing.B) {
	for _, typ := range []gguf.Type{gguf.Q8_0, gguf.Q4_1, gguf.Q4_K, gguf.Q6_K} {
		const rows, cols = 4096, 1024
		path := filepath.Join(b.TempDir(), "x.gguf")
		gguftest.Write(b, path, smallKeys("llama"), []gguftest.Tensor{{Name: "token_embd.weight", Type: uint32(typ), Shape: []int{rows, cols}, Data: make([]byte, typ.Bytes(rows*cols))}})
		c, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(rows * cols)
			for b.Loop() {
				x, err := c.Tensor("model.embed_tokens.weight", rows, cols)
				if err != nil {
					b.Fatal(err)
				}
				c.Release(x)
			}
		})
		_ = c.Close()
	}
}
