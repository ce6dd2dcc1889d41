package weights

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights/grouped"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
	"github.com/prefillonly/prefillonly/internal/mapped"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/kernels"
)

// readQuantization reads how config.json says that linear layers are stored, where there is one.
func (c *Checkpoint) readQuantization() error {
	raw, err := regular.ReadFile(filepath.Join(c.dir, "config.json"), maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var config struct {
		Quantization *Quantization `json:"quantization_config"`
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return fmt.Errorf("config.json: %s", jsonerror.Explain(err, &config))
	}
	if q := config.Quantization; q != nil && q.Check() == nil { // what is refused is so where the model is described
		c.quantization = q
	}
	return nil
}

// groupedLayout is how the named weight is stored, if in groups or blocks.
func (c *Checkpoint) groupedLayout(name string) (module string, l grouped.Layout, ok bool) {
	module, ok = strings.CutSuffix(name, ".weight")
	if ok {
		l, ok = c.quantization.layoutOf(module)
	}
	if !ok {
		return "", l, false
	}
	codes, ok := c.tensors[module+l.Codes()]
	return module, l, ok && (l.Packing != grouped.FP8 || codes.dtype == "F8_E4M3")
}

// findGrouped lists the tensors that a matrix is stored in; see grouped.Layout.Check.
func (c *Checkpoint) findGrouped(module string, l grouped.Layout, shape []int) ([]string, error) {
	if len(shape) != 2 {
		return nil, fmt.Errorf("checkpoint %s: tensor %q packs shape %v, want a matrix", c.dir, module+l.Codes(), shape)
	}
	names, err := l.Check(module, shape[0], shape[1], func(name string) (grouped.Stored, bool) {
		t, ok := c.tensors[name]
		return grouped.Stored{Type: t.dtype, Shape: t.shape}, ok
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", c.dir, err)
	}
	for _, name := range names {
		c.taken[name] = true
	}
	switch l.Packing {
	case grouped.Packed:
		err = c.findShape(module+".weight"+shapeSuffix, shape)
	case grouped.GPTQ:
		err = c.takeZeros(module+".bias", shape[0])
	}
	return names, err
}

// takeZeros takes a tensor of zeros for one that a model need not have: some quantisers write a bias for every linear layer.
func (c *Checkpoint) takeZeros(name string, count int) error {
	t, ok := c.tensors[name]
	if !ok || !slices.Equal(t.shape, []int{count}) {
		return nil
	}
	raw, err := c.readOpened(t)
	if err == nil && !slices.ContainsFunc(raw, func(b byte) bool { return b != 0 }) {
		c.taken[name] = true
	}
	return err
}

// expandGrouped makes the elements of a matrix that is stored in these tensors, in bfloat16 that Release frees.
func (c *Checkpoint) expandGrouped(module string, l grouped.Layout, names []string, rows, cols int) (kernels.HostTensor, error) {
	tensors := make([]grouped.Tensor, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		t := c.tensors[name]
		if err := t.file.Use(); err != nil {
			return kernels.HostTensor{}, err
		}
		data := t.file.tensorData(t.entry)
		tensors[i] = grouped.Tensor{Name: name, Stored: grouped.Stored{Type: t.dtype, Shape: t.shape}, Data: make([]byte, len(data))}
		err := eachPart(len(data), readPart, func(from, to int) error { return t.file.ReadPart(tensors[i].Data[from:to], data[from:to]) })
		if err != nil {
			return kernels.HostTensor{}, err
		}
		mapped.AdviseDropped(data)
	}
	m, err := l.NewMatrix(rows, cols, tensors)
	if err != nil {
		return kernels.HostTensor{}, fmt.Errorf("checkpoint %s: %w", c.dir, err)
	}
	width := cols * int(kernels.BF16.Size())
	memory, err := c.expandRows(rows, width, max(1, expandPart/cols), func(memory []byte, begin, end int) error {
		values := make([]float32, cols)
		for i := begin; i < end; i++ {
			if err := m.ExpandRow(values, i); err != nil {
				return fmt.Errorf("checkpoint %s: tensor %q: %w", c.dir, module+l.Codes(), err)
			}
			putBF16(memory[(i-begin)*width:(i-begin+1)*width], values)
		}
		return nil
	})
	t := hostTensor(module+".weight", kernels.BF16, []int{rows, cols}, memory)
	if err == nil {
		t.Groups = m.Groups()
	}
	return t, err
}

// groupedID is the ID of a matrix that is stored in groups: of its layout and of all tensors that it may be stored in.
func (c *Checkpoint) groupedID(module string, l grouped.Layout) ID {
	text := fmt.Appendf(nil, "%+v", l)
	for _, name := range l.Names(module) {
		if _, ok := c.tensors[name]; ok {
			id := c.Alone(name)
			text = append(text, id[:]...)
		}
	}
	return sha256.Sum256(text)
}
