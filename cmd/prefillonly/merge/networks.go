package merge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/generations"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// network is one that is to be merged.
type network struct {
	generations.Input
	layers merging.Model
	flop   int64 // of a frame; 0: not known
}

// networks are those of the files, or of the configuration.
func (f *runFlags) networks(files []string) ([]network, error) {
	list, err := f.entries(files)
	if err != nil {
		return nil, err
	}
	if len(list) < 2 {
		return nil, cli.UsageError("want two networks or more: got %d", len(list))
	}
	clips, err := perModel("data", f.data, names(list))
	if err != nil {
		return nil, err
	}
	decoders, err := perModel("decoder", f.decoders, names(list))
	if err != nil {
		return nil, err
	}
	for i := range list {
		n := &list[i]
		if slices.ContainsFunc(list[:i], func(o network) bool { return modellist.IsSameFile(o.File, n.File) }) {
			return nil, cli.UsageError("%s is given twice", n.File)
		}
		if n.Clip = clips[n.Name]; n.Clip == "" {
			return nil, cli.UsageError("--data: no clip of model %s: give %s=CLIP", n.Name, n.Name)
		}
		if d := decoders[n.Name]; d != "" {
			n.Decoder = d
		}
		if err := n.open(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// entries are the networks' names and files, and what the configuration says of them.
func (f *runFlags) entries(files []string) (list []network, err error) {
	var served []config.Model
	if f.config != "" {
		loaded, err := config.Load(f.config, nil, nil)
		if err != nil {
			return nil, cli.ConfigError(err)
		}
		served = loaded.Serving()
	}
	if len(files) == 0 {
		for _, m := range served {
			if file, ok := dnn.File(m.Path); ok {
				list = append(list, entry(m, file))
			}
		}
	}
	for _, file := range files {
		m := config.Model{}
		for _, of := range served {
			if path, ok := dnn.File(of.Path); ok && (slices.Contains(of.Names, file) || modellist.IsSameFile(path, file)) {
				m, file = of, path
				break
			}
		}
		list = append(list, entry(m, file))
	}
	return list, nil
}

// entry is a network of a file, and what the configuration says of it.
func entry(m config.Model, file string) network {
	n := network{Input: generations.Input{Name: stem(file), File: file, Decoder: m.Decoder}}
	if len(m.Names) > 0 {
		n.Name = m.Names[0]
	}
	return n
}

// stem is the name of a file without its extension.
func stem(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

// open reads what a merge needs to know of a network.
func (n *network) open() (err error) {
	if n.layers, err = inspect.OpenLayers(n.File); err != nil {
		return err
	}
	n.layers.Name = n.Name
	described, err := inspect.OpenNetwork(n.File)
	if err != nil {
		return err
	}
	if described.Files > 1 {
		return fmt.Errorf("%s keeps weights in other files: want a model that is one file", n.File)
	}
	if n.flop = described.FLOP; n.Decoder == "" {
		if n.Decoder, err = suggest(n.Name, described); err != nil {
			return err
		}
	}
	if _, err := vision.Find(n.Decoder); err != nil {
		return cli.UsageError("model %s: %w", n.Name, err)
	}
	n.SHA256, err = sumFile(n.File)
	return err
}

// addClips makes the clips of streams, and sums all.
func (f *runFlags) addClips(ctx context.Context, networks []network, p *progress) error {
	list, err := f.recordings(networks)
	if err == nil {
		err = f.record(ctx, list, p)
	}
	p.end()
	for i := range networks {
		if n := &networks[i]; err == nil {
			n.ClipSHA256, err = sumFile(n.Clip)
		}
	}
	return err
}

// suggest is the likeliest of the decoders that suit a network's outputs.
func suggest(name string, n *inspect.Network) (string, error) {
	var in vision.Size
	if len(n.Inputs) == 1 && len(n.Inputs[0].Shape) == 4 {
		in = vision.Size{Height: max(n.Inputs[0].Shape[2], 0), Width: max(n.Inputs[0].Shape[3], 0)}
	}
	found := vision.Suggest(modellist.Outputs(n), in)
	if len(found) == 0 {
		return "", cli.UsageError("no decoder suits the outputs of %s: say with --decoder %s=DECODER what they mean", name, name)
	}
	return found[0], nil
}

// sumFile is the SHA-256 of a regular file.
func sumFile(path string) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
