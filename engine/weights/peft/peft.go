// Package peft reads adapters of LoRA (Hu et al., 2021) as Hugging Face's library peft stores them: adapter_config.json and
// adapter_model.safetensors, checked as a stranger's files are. It is apart from the model, as it knows names and ranks and no layers.
package peft

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/kernels"
)

const (
	configFile  = "adapter_config.json"
	weightsFile = "adapter_model.safetensors"
	maxConfig   = 1 << 20
	maxModules  = 1 << 12 // seven in each of 585 layers
)

// Adapter is the headers of an adapter's files, and a way to its matrices.
type Adapter struct {
	Name   string
	Digest string // of all that is in its files

	dir     string
	config  config
	files   *weights.Checkpoint
	modules map[string]*pair // by names without what peft puts before them
}

// pair is a module's matrices A [rank, in] and B [out, rank], and what their product is multiplied with.
type pair struct {
	a, b    weights.Entry
	rank    int
	in, out int
	scale   float32
}

// Open reads an adapter through, and refuses what is not LoRA of linear layers, or has values that are no numbers.
func Open(name, dir string) (*Adapter, error) {
	a := &Adapter{Name: name, dir: dir, modules: map[string]*pair{}}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("adapter %s: %s: %w", name, dir, err)
	}
	return a, nil
}

func (a *Adapter) open() error {
	raw, err := regular.ReadFile(filepath.Join(a.dir, configFile), maxConfig)
	if err != nil {
		return err
	}
	if a.config, err = readConfig(raw); err != nil {
		return fmt.Errorf("%s: %w", configFile, err)
	}
	if a.files, err = weights.OpenFile(a.dir, weightsFile); err != nil {
		return err
	}
	defer func() { _ = a.files.Close() }() // nothing was written
	for _, e := range a.files.Entries() {
		if err := a.addTensor(e); err != nil {
			return fmt.Errorf("%s: %w", weightsFile, err)
		}
	}
	return a.checkPairs(raw)
}

// addTensor takes a tensor into its module's pair.
func (a *Adapter) addTensor(e weights.Entry) error {
	name, isB := strings.CutSuffix(e.Name, ".lora_B.weight")
	if !isB {
		var isA bool
		if name, isA = strings.CutSuffix(e.Name, ".lora_A.weight"); !isA {
			return fmt.Errorf("tensor %.200q is neither lora_A nor lora_B of a linear layer", e.Name)
		}
	}
	name = strings.TrimPrefix(name, "base_model.model.")
	if len(e.Shape) != 2 {
		return fmt.Errorf("tensor %.200q has shape %v: want a matrix", e.Name, e.Shape)
	}
	p := a.modules[name]
	if p == nil {
		p = &pair{}
		a.modules[name] = p
	}
	if p.a.Name != "" && !isB || p.b.Name != "" && isB {
		return fmt.Errorf("tensor %.200q: there are two of module %.200q", e.Name, name)
	}
	if isB {
		p.b, p.out = e, e.Shape[0]
	} else {
		p.a, p.in = e, e.Shape[1]
	}
	return nil
}

// checkPairs checks that each module has a pair of its rank, all finite.
func (a *Adapter) checkPairs(raw []byte) error {
	if n := len(a.modules); n < 1 || n > maxModules {
		return fmt.Errorf("%s has tensors of %d modules, want 1 to %d", weightsFile, n, maxModules)
	}
	h := sha256.New()
	h.Write(raw)
	for _, name := range a.Modules() {
		p := a.modules[name]
		switch {
		case p.a.Name == "":
			return fmt.Errorf("%s has lora_B of %.200q and no lora_A", weightsFile, name)
		case p.b.Name == "":
			return fmt.Errorf("%s has lora_A of %.200q and no lora_B", weightsFile, name)
		}
		var err error
		if p.rank, p.scale, err = a.config.module(name); err != nil {
			return fmt.Errorf("%s: %w", configFile, err)
		}
		if p.a.Shape[0] != p.rank || p.b.Shape[1] != p.rank {
			return fmt.Errorf("%s: %.200q has lora_A %v and lora_B %v: want rank %d, as %s says", weightsFile, name, p.a.Shape, p.b.Shape, p.rank, configFile)
		}
		if err := errors.Join(a.digest(h, p.a, 1), a.digest(h, p.b, p.scale)); err != nil {
			return err
		}
	}
	a.Digest = hex.EncodeToString(h.Sum(nil)[:16])
	return nil
}

// digest reads a tensor into a hash.
func (a *Adapter) digest(h hash.Hash, e weights.Entry, scale float32) error {
	values, err := a.read(e, scale)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%q %v\n", e.Name, e.Shape)
	return binary.Write(h, binary.LittleEndian, values)
}

// read is a tensor's values, times a scale.
func (a *Adapter) read(e weights.Entry, scale float32) ([]float32, error) {
	t, err := a.files.Tensor(e.Name, e.Shape...)
	if err != nil {
		return nil, err
	}
	defer a.files.Release(t)
	if err := t.CheckUnquantized(); err != nil {
		return nil, err
	}
	raw := make([]byte, len(t.Data))
	if err := t.ReadPart(raw, t.Data); err != nil {
		return nil, err
	}
	values := make([]float32, t.Rows*t.Cols)
	kernels.Expand(values, t.Type, raw)
	for i := range values {
		values[i] *= scale
		if v := float64(values[i]); math.IsNaN(v) || math.Abs(v) > 3e38 {
			return nil, fmt.Errorf("%s: tensor %.200q has %v at row %d, column %d, scaled by %v: want finite values", weightsFile, e.Name, v, i/t.Cols, i%t.Cols, scale)
		}
	}
	return values, nil
}

// Modules are the names of the modules that have a pair, in order.
func (a *Adapter) Modules() []string { return slices.Sorted(maps.Keys(a.modules)) }

// Rank is that of a module's pair; 0: it has none.
func (a *Adapter) Rank(module string) int {
	if p := a.modules[module]; p != nil {
		return p.rank
	}
	return 0
}

// Check refuses an adapter that has modules which are not among these linear layers, by names, with their rows and columns; or that lacks
// some which it says it has.
func (a *Adapter) Check(layers map[string][2]int) error {
	targets, err := a.config.listTargets()
	if err != nil {
		return fmt.Errorf("adapter %s: %w", a.Name, err)
	}
	for _, name := range a.Modules() {
		p := a.modules[name]
		shape, there := layers[name]
		switch {
		case !there:
			return fmt.Errorf("adapter %s: unknown module %.200q: want a linear layer of the model's blocks, such as %q", a.Name, name, firstKey(layers))
		case targets != nil && !slices.ContainsFunc(targets, func(target string) bool { return isTarget(name, target) }):
			return fmt.Errorf("adapter %s: target_modules does not list %q, which %s has tensors of", a.Name, name, weightsFile)
		case shape != [2]int{p.out, p.in}:
			return fmt.Errorf("adapter %s: module %q has lora_A %v and lora_B %v, which do not fit weights [%d, %d]", a.Name, name, p.a.Shape, p.b.Shape, shape[0], shape[1])
		}
	}
	if !a.config.inEveryLayer() {
		return nil
	}
	names := sortedKeys(layers)
	for _, target := range targets {
		for _, name := range names {
			if isTarget(name, target) && a.modules[name] == nil {
				return fmt.Errorf("adapter %s: target_modules lists %.80q, but %s has no tensors of %q", a.Name, target, weightsFile, name)
			}
		}
	}
	return nil
}

// isTarget says whether a module is one that target_modules lists so.
func isTarget(module, target string) bool {
	return module == target || strings.HasSuffix(module, "."+target)
}

// Read is a module's A and B, B times what the product is multiplied with. The files must be those that Open has read.
func (a *Adapter) Read(module string) (forA, forB []float32, err error) {
	p := a.modules[module]
	if forA, err = a.read(p.a, 1); err == nil {
		forB, err = a.read(p.b, p.scale)
	}
	return forA, forB, err
}

// Close lets go of the files until the next Read.
func (a *Adapter) Close() error { return a.files.Close() }

// Current refuses files that are no longer those that Open read.
func (a *Adapter) Current() error { return a.files.Current() }

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func firstKey[T any](m map[string]T) string {
	for _, key := range sortedKeys(m) {
		return key
	}
	return ""
}
