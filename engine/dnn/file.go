package dnn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/internal/mapped"
)

// Extension is what the names of networks' files end with.
const Extension = ".onnx"

// File is the file of the network that a path means: itself, or the one that is in a directory without a
// config.json, which is that of an LLM. Of several it is model.onnx.
func File(path string) (file string, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, strings.EqualFold(filepath.Ext(path), Extension)
	}
	if _, err := os.Stat(filepath.Join(path, "config.json")); err == nil {
		return "", false
	}
	files, _ := filepath.Glob(filepath.Join(path, "*"+Extension))
	switch named := filepath.Join(path, "model"+Extension); {
	case len(files) == 1:
		return files[0], true
	case fileExists(named):
		return named, true
	}
	return "", false
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Read reads a network's file and settles how it is run. The caller closes it after the models that are opened of it.
func Read(path string, o Options) (*Network, error) {
	file, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	var n *Network
	err = mapped.Guard(func() error {
		if o.Best {
			if err := addBest(file.Graph); err != nil {
				return err
			}
		}
		n, err = New(file.Graph, fingerprint(file, o), o)
		return err
	})
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	n.file = file
	return n, nil
}

// fingerprint identifies the content of files, and for which shapes its cost is measured. The files are in use.
func fingerprint(file *onnx.Model, o Options) string {
	h := sha256.New()
	for _, f := range file.Files() {
		fmt.Fprintf(h, "%d ", f.Identity.Size)
		h.Write(f.Data())
	}
	fmt.Fprint(h, o.Height, o.Width, o.Best)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Unchanged says why the files are not those that were read.
func (n *Network) Unchanged() error {
	if n.file == nil {
		return nil
	}
	for _, f := range n.file.Files() {
		if err := f.Unchanged(); err != nil {
			return err
		}
	}
	return nil
}

// Current says why there are others now at the files' paths, or none.
func (n *Network) Current() error {
	if n.file == nil {
		return nil
	}
	for _, f := range n.file.Files() {
		opened, err := f.OpenAgain()
		if err != nil {
			return err
		}
		_ = opened.Close()
	}
	return nil
}

// Close lets go of the files.
func (n *Network) Close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}
