// Package weights reads checkpoints: of a Hugging Face directory the safetensors files by memory mapping, and config.json; of a
// GGUF file, or several that a model is split into, the same, as if it had been converted. All of it is checked before first use.
package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
	"github.com/prefillonly/prefillonly/internal/mapped"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/kernels"
)

// Names of a checkpoint's files.
const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
)

// Checkpoint is what the headers of a checkpoint's files say, and a way to its tensors: views of the files,
// which are mapped at the first use and until Close, and refused where they are not those that Open read. It
// is not safe for concurrent use.
type Checkpoint struct {
	dir     string
	files   []*file
	tensors map[string]located
	taken   map[string]bool // names asked for by Find or Tensor
	ids     map[string]ID   // of tensors whose content is known to be that of others

	quantization *Quantization // of config.json, where linear layers may be stored in groups

	owned map[*byte][]byte // memory of tensors that were expanded, until they are released
}

type located struct {
	file *file
	entry
}

// Open reads the headers of the safetensors files of dir (model.safetensors, else the shards named by
// model.safetensors.index.json) and checks them against the files' sizes and the index; or those of a GGUF model, by its first file.
func Open(dir string) (*Checkpoint, error) {
	c := newCheckpoint(dir)
	if err := c.open(); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return c, nil
}

// OpenFile is Open of one safetensors file of dir.
func OpenFile(dir, name string) (*Checkpoint, error) {
	c := newCheckpoint(dir)
	return c, c.addFile(name)
}

func newCheckpoint(dir string) *Checkpoint {
	return &Checkpoint{dir: dir, tensors: map[string]located{}, taken: map[string]bool{}, owned: map[*byte][]byte{}}
}

func (c *Checkpoint) open() error {
	if gguf.IsName(c.dir) {
		return c.openGGUF()
	}
	if err := c.readQuantization(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(c.dir, singleFile)); err == nil {
		return c.addFile(singleFile)
	}
	raw, err := regular.ReadFile(filepath.Join(c.dir, indexFile), maxHeader)
	if errors.Is(err, fs.ErrNotExist) {
		return c.explainMissing()
	}
	if err != nil {
		return err
	}
	weightMap, err := parseIndex(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", indexFile, err)
	}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(weightMap))) {
		if err := c.addFile(name); err != nil {
			return fmt.Errorf("shard named by %s: %w", indexFile, err)
		}
	}
	return c.checkIndex(weightMap)
}

// explainMissing tells a directory that is not there from one in another format.
func (c *Checkpoint) explainMissing() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if what, how := Foreign(names); what != "" {
		return fmt.Errorf("holds %s: %s", what, how)
	}
	return fmt.Errorf("holds neither %s nor %s", singleFile, indexFile)
}

func parseIndex(raw []byte) (map[string]string, error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, errors.New(jsonerror.Explain(err, &index))
	}
	if len(index.WeightMap) == 0 {
		return nil, errors.New("missing or empty weight_map")
	}
	for tensor, name := range index.WeightMap {
		if filepath.Base(name) != name || name == "." || !filepath.IsLocal(name) || strings.ContainsRune(name, 0) {
			return nil, fmt.Errorf("tensor %q: invalid shard %q: want a file name within the checkpoint", tensor, name)
		}
	}
	return index.WeightMap, nil
}

func (c *Checkpoint) addFile(name string) error {
	f, err := readFile(filepath.Join(c.dir, name))
	if err != nil {
		return err
	}
	return c.addEntries(f)
}

// addEntries adds a file and its tensors.
func (c *Checkpoint) addEntries(f *file) error {
	c.files = append(c.files, f)
	for _, e := range f.entries {
		if other, ok := c.tensors[e.name]; ok {
			return fmt.Errorf("tensor %q is in both %s and %s", e.name, other.file.name, f.name)
		}
		c.tensors[e.name] = located{f, e}
	}
	return nil
}

func (c *Checkpoint) checkIndex(weightMap map[string]string) error {
	for _, tensor := range slices.Sorted(maps.Keys(weightMap)) {
		shard := weightMap[tensor]
		t, ok := c.tensors[tensor]
		if !ok {
			return fmt.Errorf("tensor %q is not in %s, where %s lists it", tensor, shard, indexFile)
		}
		if t.file.name != shard {
			return fmt.Errorf("tensor %q is in %s, but %s says it is in %s", tensor, t.file.name, indexFile, shard)
		}
	}
	return nil
}

// Find says of which type the named tensor is, by the header alone. It fails when the tensor is absent, has
// another shape, or a type no backend computes with, or, of codes, no scales that fit.
func (c *Checkpoint) Find(name string, shape ...int) (kernels.DType, error) {
	if module, l, ok := c.groupedLayout(name); ok {
		_, err := c.findGrouped(module, l, shape)
		return kernels.BF16, err
	}
	t, packed, ok := c.storedTensor(name)
	if !ok {
		return 0, fmt.Errorf("checkpoint %s: missing tensor %q (%d tensors in %d files)", c.dir, name, len(c.tensors), len(c.files))
	}
	typ, err := c.findStored(t, packed, name, shape)
	if err != nil {
		return 0, err
	}
	if typ.Scaled() {
		if err := c.findScales(name+scaleSuffix, elementCount(shape[:len(shape)-1])); err != nil {
			return 0, err
		}
	}
	return typ, nil
}

// Tensor returns the named tensor as a view of its mapped file, and asks the system to read it
// ahead, with its scales (another tensor) where it is of codes. Of codes that are packed, ReadPart makes what
// they stand for, and the view does not; those of rows that were filled up, and what is expanded, are a copy. It fails where Find does, and where the file is not the one that Open read.
func (c *Checkpoint) Tensor(name string, shape ...int) (kernels.HostTensor, error) {
	if module, l, ok := c.groupedLayout(name); ok {
		names, err := c.findGrouped(module, l, shape)
		if err != nil {
			return kernels.HostTensor{}, err
		}
		return c.expandGrouped(module, l, names, shape[0], shape[1])
	}
	typ, err := c.Find(name, shape...)
	if err != nil {
		return kernels.HostTensor{}, err
	}
	t, packed, _ := c.storedTensor(name)
	if err := t.file.Use(); err != nil {
		return kernels.HostTensor{}, err
	}
	data := t.file.tensorData(t.entry)
	mapped.AdviseNeeded(data)
	tensor := hostTensor(name, typ, shape, data)
	switch tensor.File = t.file; {
	case t.coded != nil:
		tensor.File = nil
		tensor.Data, err = c.expandTensor(t, tensor.Rows, tensor.Cols)
		mapped.AdviseDropped(data)
		return tensor, err
	case packed && tensor.Cols%perWord != 0:
		tensor.File = nil
		if tensor.Data, err = c.unpadMatrix(t, tensor.Rows, tensor.Cols); err != nil {
			return kernels.HostTensor{}, err
		}
	case packed:
		tensor.File = packedFile{t.file}
	}
	if typ.Scaled() {
		tensor.Scale, err = c.readScales(name+scaleSuffix, tensor.Rows)
	}
	return tensor, err
}

// elementCount is how many a tensor of this shape has.
func elementCount(shape []int) int {
	n := 1
	for _, dim := range shape {
		n *= dim
	}
	return n
}

func hostTensor(name string, typ kernels.DType, shape []int, data []byte) kernels.HostTensor {
	last := len(shape) - 1
	return kernels.HostTensor{Name: name, Type: typ, Rows: elementCount(shape[:last]), Cols: shape[last], Data: data}
}

// Release says that t, a result of Tensor, has been copied by the backend: its pages leave this
// process, so that weights are never resident twice. They stay in the system's page cache, which
// is reclaimed at need and makes a restart quick. A later read of t maps them anew. Memory of a tensor
// that was expanded is freed. What else is no view of a file is left alone.
func (c *Checkpoint) Release(t kernels.HostTensor) {
	if !c.releaseMemory(t.Data) && t.File != nil {
		mapped.AdviseDropped(t.Data)
	}
}

// Ahead asks the system to read the named tensor, and does not wait for it.
func (c *Checkpoint) Ahead(name string) {
	names := []string{name}
	if module, l, ok := c.groupedLayout(name); ok {
		names = l.Names(module)
	}
	for _, name := range names {
		if t, _, ok := c.storedTensor(name); ok && t.file.Use() == nil {
			mapped.AdviseNeeded(t.file.tensorData(t.entry))
		}
	}
}

// Untaken lists, sorted, the tensors that neither Find nor Tensor was asked for.
func (c *Checkpoint) Untaken() []string {
	var names []string
	for name := range c.tensors {
		if !c.taken[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// fingerprintSample is how many of a tensor's first bytes Fingerprint reads.
const fingerprintSample = 4096

// Fingerprint identifies the weights: SHA-256 over the name, type, shape and first 4 KiB of every
// tensor. Training changes those bytes; reading all of a large checkpoint would take a minute.
func (c *Checkpoint) Fingerprint() (string, error) {
	h := sha256.New()
	var sample [fingerprintSample]byte
	for _, name := range slices.Sorted(maps.Keys(c.tensors)) {
		t := c.tensors[name]
		if err := t.file.Use(); err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %s %v\n", name, t.dtype, t.shape)
		data := t.file.tensorData(t.entry)
		n := min(len(data), fingerprintSample)
		if err := t.file.ReadPart(sample[:n], data[:n]); err != nil {
			return "", err
		}
		h.Write(sample[:n])
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Unchanged refuses files that have changed since Open, of those in use.
func (c *Checkpoint) Unchanged() error {
	for _, f := range c.files {
		if err := f.Unchanged(); err != nil {
			return err
		}
	}
	return nil
}

// Current refuses files that are no longer those that Open read, whether they are in use or not.
func (c *Checkpoint) Current() error {
	for _, f := range c.files {
		opened, err := f.OpenAgain()
		if err != nil {
			return err
		}
		if err := opened.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Close unmaps the files; tensors are invalid from then on, until they are asked for anew.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, memory := range c.owned {
		c.releaseMemory(memory)
	}
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
