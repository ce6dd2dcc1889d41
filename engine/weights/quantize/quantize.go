// Package quantize writes a checkpoint of a decoder anew with its projections in int8, and its LM head if asked to, as the
// compressed-tensors format has W8A8 and W8A16: codes with a scale for each row, rounded to nearest.
package quantize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// Options of Run.
type Options struct {
	Scheme    Scheme
	LMHead    bool                    // is quantised, too
	Smoothing *Smoothing              // nil for none
	Progress  func(done, total int64) // bytes of tensors read; nil for none
}

// Result is what Run has done.
type Result struct {
	Matrices      int   // that are quantised
	Smoothed      int   // norms
	Before, After int64 // bytes of tensors
}

const (
	configFile = "config.json"
	maxConfig  = 64 << 20
	indexFile  = "model.safetensors.index.json"
)

// Run writes the checkpoint of directory from, quantised, to directory to, which must be empty or not there. It is there when
// all of it is: until then it has another name beside, and what an error leaves is removed.
func Run(ctx context.Context, from, to string, o Options) (Result, error) {
	if err := o.Check(); err != nil {
		return Result{}, err
	}
	config, tied, err := o.newConfig(from)
	if err != nil {
		return Result{}, err
	}
	checkpoint, err := weights.Open(from)
	if err != nil {
		return Result{}, err
	}
	defer checkpoint.Close()
	room, err := newRoom(to)
	if err != nil {
		return Result{}, err
	}
	defer room.close()
	j := job{Options: o, ctx: ctx, checkpoint: checkpoint, from: from, room: room.path}
	if err := j.run(config, tied); err != nil {
		return Result{}, err
	}
	return j.Result, room.renameToTarget()
}

// Check refuses options that do not go together.
func (o *Options) Check() error {
	switch err := o.Scheme.Check(); {
	case err != nil || o.Smoothing == nil:
		return err
	case o.Scheme != W8A8:
		return fmt.Errorf("smoothing (--calibration) needs quantised activations, which %s does not have", o.Scheme)
	case !(o.Smoothing.Strength >= 0 && o.Smoothing.Strength <= 1):
		return fmt.Errorf("invalid smoothing strength %g: want 0 to 1", o.Smoothing.Strength)
	}
	return nil
}

// job is a run.
type job struct {
	Options
	Result
	ctx        context.Context
	checkpoint *weights.Checkpoint
	from, room string
	done       int64
	total      int64                // bytes that are to be read
	head       string               // the tensor that codes of the LM head are made of; "" for none
	norms      map[string][]byte    // that are smoothed: what becomes of them
	factors    map[string][]float32 // of the columns of the matrices behind them
}

func (j *job) run(config []byte, tied bool) error {
	entries := j.checkpoint.Entries()
	if !slices.ContainsFunc(entries, isProjection) {
		return fmt.Errorf("%s has nothing to quantise: no projections of a decoder (matrices named ..._proj.weight)", j.from)
	}
	for _, e := range entries {
		if isMatrix(e) && !isProjection(e) && strings.Contains(e.Name, "layers.") {
			return fmt.Errorf("%s: tensor %q is a matrix of a layer and not named ..._proj.weight, want a decoder all of whose are", j.from, e.Name)
		}
		j.Before += e.Bytes
	}
	j.total = j.Before
	if j.LMHead {
		if err := j.findHead(entries, tied); err != nil {
			return err
		}
	}
	if j.Smoothing != nil {
		if err := j.smoothNorms(entries); err != nil {
			return err
		}
	}
	index := map[string]string{}
	files := j.checkpoint.Files()
	for i, f := range files {
		own := slices.DeleteFunc(slices.Clone(entries), func(e weights.Entry) bool { return e.File != i })
		if err := j.writeCheckpointFile(filepath.Base(f.Path), own, index); err != nil {
			return err
		}
	}
	if err := j.copyOthers(); err != nil {
		return err
	}
	if len(files) > 1 {
		if err := j.writeIndex(index); err != nil {
			return err
		}
	}
	return j.createFile(configFile, func(w io.Writer) error { _, err := w.Write(append(config, '\n')); return err })
}

// writeCheckpointFile writes one of the checkpoint's files, and enters its tensors into the index.
func (j *job) writeCheckpointFile(name string, entries []weights.Entry, index map[string]string) error {
	var parts []weights.Part
	for _, e := range entries {
		codes := j.codesOf(e)
		if codes != e.Name {
			parts = append(parts, weights.Part{Name: e.Name, Type: e.Type, Shape: e.Shape, Data: func(w io.Writer) error { return j.writeUnquantized(w, e) }})
		}
		if codes != "" {
			parts = append(parts, j.quantizedParts(e, codes)...)
			j.Matrices++
		}
	}
	for i := range parts {
		index[parts[i].Name] = name
		j.After += parts[i].Bytes()
	}
	return j.createFile(name, func(w io.Writer) error { return weights.Write(w, parts) })
}

// codesOf is the name of the matrix in codes that a tensor becomes, or "". A tensor whose own name is another stays, too.
func (j *job) codesOf(e weights.Entry) string {
	switch {
	case e.Name == j.head:
		return headWeight
	case isProjection(e):
		return e.Name
	}
	return ""
}

// isProjection says whether a tensor is a matrix between activations, by the names of most families.
func isProjection(e weights.Entry) bool {
	return isMatrix(e) && strings.HasSuffix(e.Name, "_proj.weight")
}

// isMatrix says whether a tensor is a matrix of numbers.
func isMatrix(e weights.Entry) bool {
	_, known := types[e.Type]
	return known && len(e.Shape) == 2
}

// writeUnquantized writes a tensor that is not quantised.
func (j *job) writeUnquantized(w io.Writer, e weights.Entry) error {
	if norm, ok := j.norms[e.Name]; ok {
		if _, err := w.Write(norm); err != nil {
			return err
		}
		w = io.Discard
	}
	return j.read(w, e)
}

// read writes the bytes of a tensor to w.
func (j *job) read(w io.Writer, e weights.Entry) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	if err := j.checkpoint.Copy(w, e.Name, e.Bytes); err != nil {
		return err
	}
	if j.done += e.Bytes; j.Progress != nil {
		j.Progress(j.done, j.total)
	}
	return nil
}

// createFile writes a file of the result, to the disk.
func (j *job) createFile(name string, write func(w io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(j.room, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (j *job) writeIndex(files map[string]string) error {
	text, err := json.MarshalIndent(map[string]any{"metadata": map[string]int64{"total_size": j.After}, "weight_map": files}, "", "  ")
	if err != nil {
		return err
	}
	return j.createFile(indexFile, func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err })
}

// weightsOf are endings of files that hold weights, in this format and others.
var weightsOf = []string{".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack", ".ckpt"}

// copyOthers copies what is beside the weights: tokenizer, chat template, modules of sentence-transformers with their own weights.
func (j *job) copyOthers() error {
	return j.copyDir(".")
}

func (j *job) copyDir(dir string) error {
	list, err := os.ReadDir(filepath.Join(j.from, dir))
	if err != nil {
		return err
	}
	for _, entry := range list {
		name := filepath.Join(dir, entry.Name())
		info, err := os.Stat(filepath.Join(j.from, name)) // of what a link leads to
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(entry.Name(), "."), dir == "." && (name == configFile || name == indexFile || slices.Contains(weightsOf, filepath.Ext(name))):
			continue
		case info.IsDir() && dir == ".":
			if err = os.Mkdir(filepath.Join(j.room, name), 0o755); err == nil {
				err = j.copyDir(name)
			}
		case info.Mode().IsRegular():
			err = j.createFile(name, func(w io.Writer) error { return j.copyFile(w, name) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *job) copyFile(w io.Writer, name string) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	f, err := regular.Open(filepath.Join(j.from, name))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
