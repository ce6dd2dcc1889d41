package weights

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/prefillonly/prefillonly/internal/mapped"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// file is one safetensors file. It is in use only while tensors of it are.
type file struct {
	mapped.File
	name    string // last element of its path
	body    int64  // where the tensors' data begins
	entries []entry
}

// readFile reads a file's header.
func readFile(path string) (*file, error) {
	opened, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	f := &file{name: filepath.Base(path)}
	if f.File, err = mapped.MapFile(path, opened); err == nil {
		err = f.readHeader(opened)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func (f *file) readHeader(opened *os.File) error {
	var prefix [8]byte
	n, _ := opened.ReadAt(prefix[:], 0) // a short read shows in the length
	length, err := headerLength(prefix[:n], f.Identity.Size)
	if err != nil {
		return err
	}
	f.body = 8 + length
	header := make([]byte, length)
	if _, err := opened.ReadAt(header, 8); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	f.entries, err = parseHeader(header, f.Identity.Size-f.body)
	return err
}

// tensorData is a tensor in the mapping.
func (f *file) tensorData(e entry) []byte {
	return f.Data()[f.body+e.begin : f.body+e.end : f.body+e.end]
}
