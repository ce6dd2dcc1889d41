// Package onnx reads ONNX models of opsets 7 to 25 as graphs whose nodes have the meaning of opset 21. What it
// refuses it names, with file and node; operations that it does not know are not refused here.
package onnx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/internal/mapped"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// The opsets that are read. Since 21, operations have got types and attributes, and new operations came.
const (
	oldestOpset = 7
	newestOpset = 25
)

// Model is a network and the files that hold its large constants. It is not safe for concurrent use, but for
// ReadPart.
type Model struct {
	Path     string
	Producer string
	Opset    int64             // of the file
	Metadata map[string]string // what its maker notes beside the graph
	Graph    *graph.Graph

	files map[string]*mapped.File // by path within the directory; the model's own under its name
	order []string                // of files
}

// Open reads the model at path. Its large constants are parts of mapped files: they are valid until Close, and
// what computes with them is to be called under mapped.Guard.
func Open(path string) (*Model, error) {
	m := &Model{Path: path, files: map[string]*mapped.File{}}
	opened, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	file, err := m.use(filepath.Base(path), path, opened)
	if err == nil {
		err = mapped.Guard(func() error { return m.parseModel(file.Data()) })
	}
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Parse reads a model from memory, of which its large constants are parts. It has no external data.
func Parse(data []byte) (*Model, error) {
	m := &Model{}
	if err := m.parseModel(data); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Model) parseModel(data []byte) error {
	var p modelProto
	var d decoder
	if err := d.decodeModel(data, &p); err != nil {
		return err
	}
	if d.nodes > maxNodes {
		return fmt.Errorf("got at least %d nodes, want at most %d", d.nodes, maxNodes)
	}
	if p.graph == nil {
		return errors.New("missing graph: not an ONNX file, or truncated")
	}
	m.Producer, m.Metadata = p.producer, p.metadata
	if p.producerVersion != "" {
		m.Producer += " " + p.producerVersion
	}
	if err := m.readOpset(p.opsets); err != nil {
		return err
	}
	var err error
	m.Graph, err = m.buildGraph(p.graph)
	return err
}

func (m *Model) readOpset(opsets []opsetID) error {
	for _, o := range opsets {
		if !isDefault(o.domain) {
			continue
		}
		if m.Opset != 0 && m.Opset != o.version {
			return fmt.Errorf("imports both opset %d and opset %d, want one", m.Opset, o.version)
		}
		m.Opset = o.version
	}
	if m.Opset < oldestOpset || m.Opset > newestOpset {
		return fmt.Errorf("unsupported opset %d: want %d to %d", m.Opset, oldestOpset, newestOpset)
	}
	return nil
}

// isDefault says whether a domain is that of ONNX's own operations.
func isDefault(domain string) bool { return domain == "" || domain == "ai.onnx" }

// use maps a file, which it closes. It has the given name among the model's.
func (m *Model) use(name, path string, opened *os.File) (*mapped.File, error) {
	file, err := mapped.MapFile(path, opened)
	if err = errors.Join(err, opened.Close()); err != nil {
		return nil, err
	}
	if err := file.Use(); err != nil {
		return nil, err
	}
	m.files[name] = &file
	m.order = append(m.order, name)
	return &file, nil
}

// readExternal is the part of another file, in the model's directory, that a tensor of want bytes says it is.
func (m *Model) readExternal(where map[string]string, want int) ([]byte, error) {
	location := where["location"]
	if m.files == nil {
		return nil, fmt.Errorf("data is in another file, %q: want a model that is a file itself", location)
	}
	offset, err := externalNumber(where, "offset", 0)
	if err != nil {
		return nil, err
	}
	length, err := externalNumber(where, "length", int64(want))
	if err != nil {
		return nil, err
	}
	if length != int64(want) {
		return nil, fmt.Errorf("got %d bytes in %q, want %d for its shape and type", length, location, want)
	}
	file, err := m.openExternal(location)
	if err != nil {
		return nil, err
	}
	if size := file.Identity.Size; offset > size || length > size-offset {
		return nil, fmt.Errorf("want %d bytes at offset %d of %q, which has %d bytes", length, offset, location, size)
	}
	return file.Data()[offset : offset+length : offset+length], nil
}

// externalNumber is a number of an external tensor's place.
func externalNumber(where map[string]string, key string, fallback int64) (int64, error) {
	text, ok := where[key]
	if !ok {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("invalid %s %q of external data: want a number of bytes", key, text)
	}
	return n, nil
}

// openExternal maps a file that lies, links followed, in the directory of the model.
func (m *Model) openExternal(location string) (*mapped.File, error) {
	if !filepath.IsLocal(location) {
		return nil, fmt.Errorf("invalid location %q of external data: want a path within the model's directory", location)
	}
	name := filepath.Clean(location)
	if file, ok := m.files[name]; ok {
		return file, nil
	}
	dir := filepath.Dir(m.Path)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	opened, err := regular.OpenIn(root, name)
	if err != nil {
		return nil, fmt.Errorf("external data: %w", err)
	}
	return m.use(name, filepath.Join(dir, name), opened)
}

// ReadPart copies part of a constant's data to dst, which is as long, by reading its file: see kernels.File.
func (m *Model) ReadPart(dst, part []byte) error {
	for _, file := range m.files {
		if file.Holds(part) {
			return file.ReadPart(dst, part)
		}
	}
	copy(dst, part)
	return nil
}

// Files are the model's files: its own, then those of external data.
func (m *Model) Files() []*mapped.File {
	var files []*mapped.File
	for _, name := range m.order {
		files = append(files, m.files[name])
	}
	return files
}

// Close unmaps the files: the constants' data is not valid any more.
func (m *Model) Close() error {
	var errs []error
	for _, file := range m.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
