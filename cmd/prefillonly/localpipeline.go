package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/pipeline"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

// pipelineOptions are the flags of commands that run a pipeline in this process, or have a server do so.
type pipelineOptions struct {
	model, alphabet string
	threads         int
	server, keyFile string
	networks        config.Networks // files that the model's folder does not tell
}

// A server's answer to a file.
const (
	fileTimeout = 30 * time.Minute
	fileBytes   = 64 << 20
)

// addFlags declares the flags; the texts say of which networks and symbols.
func (o *pipelineOptions) addFlags(command *cobra.Command, model, alphabet string) {
	flags := command.Flags()
	flags.StringVar(&o.model, "model", "", model)
	flags.StringVar(&o.alphabet, "alphabet", "", alphabet)
	flags.IntVar(&o.threads, "threads", 0, "threads to compute with (default: all processors)")
	flags.StringVar(&o.server, "server", "", "`URL` of a running server that does it; --model is then the name of one of its models, if it has several")
	flags.StringVar(&o.keyFile, "api-key-file", "", "`FILE` whose first line is the server's API key (default: PREFILLONLY_API_KEY)")
	cli.CompleteFlag(command, "server", cobra.NoFileCompletions)
}

// openServer is the server that is to do it; nil: this process does.
func (o *pipelineOptions) openServer() (*remote, error) {
	switch {
	case o.server == "" && o.keyFile != "":
		return nil, cli.UsageError("--api-key-file is a server's: say with --server where that is")
	case o.server == "":
		return nil, nil
	case o.alphabet != "" || o.threads != 0:
		return nil, cli.UsageError("--alphabet and --threads are of networks in this process: leave them out with --server")
	}
	return openRemote(o.server, o.keyFile, fileTimeout)
}

// localPipeline runs a pipeline's networks in this process. It implements pipeline.Host.
type localPipeline struct {
	model    config.Model // the first network's, with what is said of the pipeline
	symbols  []string
	backend  *cpu.Backend
	networks map[string]*direct.Network
}

// openPipeline opens a pipeline of a kind. The caller closes it.
func (o *pipelineOptions) openPipeline(kind string) (*localPipeline, error) {
	if o.model == "" {
		return nil, cli.UsageError("say with --model where the networks are, or with --server which server has them")
	}
	cfg := config.Default()
	cfg.Models = []config.Model{{Path: o.model, Pipeline: kind, Alphabet: o.alphabet, Networks: o.networks}}
	failed, err := modellist.Resolve(&cfg, modellist.Cached)
	if err = errors.Join(append(failed, err)...); err != nil {
		return nil, cli.ConfigError(err)
	}
	p := &localPipeline{model: cfg.Models[0], networks: map[string]*direct.Network{}}
	if p.symbols, err = modellist.Alphabet(&p.model); err != nil {
		return nil, err
	}
	if p.backend, err = cpu.New(cpu.Config{Threads: o.threads}); err != nil {
		return nil, err
	}
	if err := p.openNetworks(cfg.Models); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *localPipeline) openNetworks(models []config.Model) error {
	for i, part := range config.Pipelines[p.model.Pipeline] {
		for at := range models {
			m := &models[at]
			if m.Names[0] != config.NetworkName(p.model.Names[0], i, part) {
				continue
			}
			n, err := direct.Open(m.Path, p.backend, dnn.Options{WorkBytes: int64(m.WorkMemory), Best: part.Decoder == config.DecoderCTC})
			if err != nil {
				return err
			}
			p.networks[part.Key] = n
		}
	}
	return nil
}

// Close frees the networks.
func (p *localPipeline) Close() {
	for _, n := range p.networks {
		n.Close()
	}
	p.backend.Close()
}

// RunStage implements pipeline.Host.
func (p *localPipeline) RunStage(_ context.Context, _ processors.Stage, f func() error) error {
	return f()
}

// HoldMemory implements pipeline.Host.
func (p *localPipeline) HoldMemory(int64) error { return nil }

// ReleaseMemory implements pipeline.Host.
func (p *localPipeline) ReleaseMemory(int64) {}

// TensorLimits implements pipeline.Host.
func (p *localPipeline) TensorLimits(_ context.Context, network string) (*wire.TensorLimits, error) {
	return p.networks[network].Limits(), nil
}

// PlanPass implements pipeline.Host.
func (p *localPipeline) PlanPass(string, float64) (time.Duration, error) { return 0, nil }

// RunPasses implements pipeline.Host.
func (p *localPipeline) RunPasses(ctx context.Context, network string, outputs []string, inputs [][]pipeline.Tensor, accept func(i int, outputs []pipeline.Tensor) error) error {
	for i, in := range inputs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var refs []engine.Ref
		var data [][]byte
		for _, t := range in {
			refs, data = append(refs, engine.Ref{Name: t.Name, Type: t.Type, Shape: t.Shape}), append(data, t.Data)
		}
		found, values, err := p.networks[network].Infer(outputs, refs, data)
		if err != nil {
			return err
		}
		var tensors []pipeline.Tensor
		for k, f := range found {
			tensors = append(tensors, pipeline.Tensor{Name: f.Name, Type: f.Type, Shape: f.Shape, Data: values[k]})
		}
		if err := accept(i, tensors); err != nil {
			return err
		}
	}
	return nil
}

// forEachFile has f read each of some files; one that fails, or whose name is wrong, does not keep it from the others.
func forEachFile(files []string, f func(file string) error) error {
	var wrong error
	for _, file := range files {
		if err := f(file); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", file, err))
		}
	}
	return wrong
}
