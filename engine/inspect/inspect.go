// Package inspect describes models: checkpoints, how they are loaded, and what two of them share; and networks.
package inspect

import (
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// Checkpoint is the files of a language model, in bytes as they have them but where a device is named.
type Checkpoint struct {
	Path         string           `json:"path"`
	Architecture string           `json:"architecture"`
	Files        int              `json:"files"`
	Bytes        int64            `json:"bytes"`
	Types        map[string]int64 `json:"types"` // bytes of each
	Tensors      []Tensor         `json:"tensors"`
	Chunks       []Chunk          `json:"chunks,omitempty"`
	DeviceBytes  int64            `json:"device_bytes,omitempty"`
	Refused      string           `json:"refused,omitempty"` // why it cannot be served: there are no chunks then

	config     weights.Config
	checkpoint *weights.Checkpoint
	chunks     []store.Info
}

// Tensor is one of a model.
type Tensor struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int64  `json:"bytes"`
	File  string `json:"file"`
}

// Chunk is what is loaded and dropped together.
type Chunk struct {
	Name        string `json:"name"`
	Tensors     int    `json:"tensors"`
	Bytes       int64  `json:"bytes"`
	DeviceBytes int64  `json:"device_bytes"` // as expected on a device that computes in bfloat16
}

// OpenCheckpoint reads the headers of the checkpoint in dir. One that cannot be served is described none the less.
func OpenCheckpoint(dir string) (*Checkpoint, error) {
	config, err := weights.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	opened, err := weights.Open(dir)
	if err != nil {
		return nil, err
	}
	m := &Checkpoint{Path: dir, Types: map[string]int64{}, config: config, checkpoint: opened}
	if len(config.Architectures) > 0 {
		m.Architecture = config.Architectures[0]
	}
	files := opened.Files()
	m.Files = len(files)
	for _, e := range opened.Entries() {
		m.Tensors = append(m.Tensors, Tensor{e.Name, e.Type, e.Shape, e.Bytes, filepath.Base(files[e.File].Path)})
		m.Bytes += e.Bytes
		m.Types[e.Type] += e.Bytes
	}
	m.describeChunks()
	return m, nil
}

// sizing is a backend by which memory is planned: like devices it computes in bfloat16, and it never computes.
type sizing struct{ *ref.Backend }

func (sizing) ActType() kernels.DType { return kernels.BF16 }

// open describes the model to a store.
func (m *Checkpoint) open() (interface{ Chunks() []store.Info }, error) {
	st := store.New(sizing{ref.New().(*ref.Backend)})
	if encoder.IsEncoder(m.config) {
		return encoder.Open(m.config, m.checkpoint, st, encoder.Options{})
	}
	return model.Open(m.config, m.checkpoint, st, model.Options{})
}

// describeChunks lists the chunks, by what is known now of the tensors' content.
func (m *Checkpoint) describeChunks() {
	opened, err := m.open()
	if err == nil {
		_, err = checkpoint.Open(m.Path, filepath.Base(m.Path), checkpoint.Overrides{})
	}
	if err != nil {
		m.Refused = err.Error()
		return
	}
	m.chunks, m.Chunks, m.DeviceBytes = opened.Chunks(), nil, 0
	for _, info := range m.chunks {
		c := Chunk{Name: info.Name, DeviceBytes: info.Bytes}
		for _, p := range info.Parts {
			c.Tensors += len(p.Tensors)
			for _, t := range p.Tensors {
				c.Bytes += t.Bytes
			}
		}
		m.Chunks = append(m.Chunks, c)
		m.DeviceBytes += c.DeviceBytes
	}
}
