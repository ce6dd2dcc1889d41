package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/bench/pipelines"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/motion"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// pipelinesFlags are those of `video pipelines`.
type pipelinesFlags struct {
	pipelines []string
	data, out string
	seed      uint64
	threads   int
}

func newPipelinesCommand() *cobra.Command {
	var f pipelinesFlags
	command := &cobra.Command{
		Use:   "pipelines --out DIR",
		Short: "Compare ways to set the knobs of streaming pipelines",
		Long: `Streams recordings to networks, of which each interval is prepared by knobs such as a sampling rate, and sets the knobs by OneAdapt's gradients and in other ways.
Writes how accurate each way is and what it costs to DIR/results.csv, how OneAdapt stands to the others to DIR/gains.csv, and to DIR/gradients.csv how
gradients agree with accuracy and how fast settings are found; a chart of each pipeline is beside them. What the network finds at the dearest settings is
taken for true. Time is virtual, networks and data are real.`,
		Args:    cobra.NoArgs,
		Example: `  prefillonly video pipelines --pipelines audio --data ./data --out results`,
		RunE:    func(command *cobra.Command, _ []string) error { return f.run(command) },
	}
	flags := command.Flags()
	flags.StringSliceVar(&f.pipelines, "pipelines", nil, "pipelines, with commas between them: "+strings.Join(pipelines.Names(), ", ")+" (default: all)")
	flags.StringVar(&f.data, "data", os.Getenv("PREFILLONLY_DATA"), "directory with recordings and networks (default: $PREFILLONLY_DATA)")
	flags.StringVar(&f.out, "out", "", "directory to write to")
	flags.Uint64Var(&f.seed, "seed", 1, "of what is drawn; 1 is not what constants were chosen on")
	flags.IntVar(&f.threads, "threads", 1, "threads to compute with")
	if err := command.MarkFlagRequired("out"); err != nil {
		panic(err)
	}
	return command
}

func (f *pipelinesFlags) run(command *cobra.Command) error {
	if len(f.pipelines) == 0 {
		f.pipelines = pipelines.Names()
	}
	for _, name := range f.pipelines {
		if !slices.Contains(pipelines.Names(), name) {
			return usageError("--pipelines: there is no pipeline %q; there are %s", name, strings.Join(pipelines.Names(), ", "))
		}
	}
	backend, err := cpu.New(cpu.Config{Threads: f.threads})
	if err != nil {
		return err
	}
	defer backend.Close()
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	var rows []pipelines.Row
	var findings []pipelines.Findings
	for _, name := range f.pipelines {
		more, found, err := study(name, pipelines.Source{Data: f.data, Seed: f.seed, Backend: backend, Video: f.video(command.Context(), backend)})
		if err != nil {
			return errors.Join(err, f.write(rows, findings))
		}
		rows, findings = append(rows, more...), append(findings, found)
	}
	return errors.Join(f.write(rows, findings), pipelines.Draw(rows, f.out), pipelines.Print(command.OutOrStdout(), rows, pipelines.Compare(rows), findings))
}

// video opens clips of a pipeline, whose frames are encoded by the program camera.
func (f *pipelinesFlags) video(ctx context.Context, backend *cpu.Backend) func(string, ...string) (*emulate.Clip, emulate.Tools, func(), error) {
	return func(name string, classes ...string) (*emulate.Clip, emulate.Tools, func(), error) {
		program, err := pipe.Find()
		if err != nil {
			return nil, emulate.Tools{}, nil, err
		}
		client, err := pipe.Start(ctx, program)
		if err != nil {
			return nil, emulate.Tools{}, nil, err
		}
		codec := &evalCodec{ctx: ctx, client: client}
		e := evaluation{evalFlags: &evalFlags{rate: pipelines.VideoRate, found: pipelines.VideoFound, classes: strings.Join(classes, ",")}, codec: codec, backend: backend}
		clip, err := e.readClip(ctx, filepath.Join(f.data, "video", name))
		if err != nil {
			codec.close()
			return nil, emulate.Tools{}, nil, err
		}
		server, err := e.open(filepath.Join(f.data, "models", "yolox_nano_416.onnx"), "yolox", "", clip)
		if err != nil {
			codec.close()
			return nil, emulate.Tools{}, nil, err
		}
		closeAll := func() {
			server.detector.Close()
			codec.close()
		}
		return clip, emulate.Tools{Codec: codec, Server: server, Gradient: server, Differ: motion.Differ, Clock: processorTime}, closeAll, nil
	}
}

// study runs one pipeline.
func study(name string, source pipelines.Source) ([]pipelines.Row, pipelines.Findings, error) {
	s, err := pipelines.Open(name, source)
	if err != nil {
		return nil, pipelines.Findings{}, err
	}
	defer s.Close()
	lab, say := pipeline.NewLab(s), progressOf()
	rows, err := pipelines.Run(s, lab, say)
	if err != nil {
		return nil, pipelines.Findings{}, err
	}
	found, err := pipelines.Find(s, lab)
	say("", 0, 0)
	return rows, found, err
}

func (f *pipelinesFlags) write(rows []pipelines.Row, findings []pipelines.Findings) error {
	return errors.Join(
		writeFile(filepath.Join(f.out, "results.csv"), func(w *os.File) error { return pipelines.Write(w, rows) }),
		writeFile(filepath.Join(f.out, "gains.csv"), func(w *os.File) error { return pipelines.WriteGains(w, pipelines.Compare(rows)) }),
		writeFile(filepath.Join(f.out, "gradients.csv"), func(w *os.File) error { return pipelines.WriteFindings(w, findings) }))
}
