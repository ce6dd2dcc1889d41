package video

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/bench/pipelines"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/motion"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/casva"
)

// pipelinesFlags are those of `video pipelines`.
type pipelinesFlags struct {
	pipelines []string
	data, out string
	table     string // that is written in place of all else
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
	flags.StringVar(&f.table, "record", "", "file in --out to write what each configuration of each interval takes and gives to, in place of all else: what CASVA's policy is trained on (tools/train casva)")
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
			return cli.UsageError("--pipelines: there is no pipeline %q; there are %s", name, strings.Join(pipelines.Names(), ", "))
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
	source := pipelines.Source{Data: f.data, Seed: f.seed, Backend: backend, Video: f.newVideoOpener(command.Context(), backend), Drawn: f.newDrawnTools(command.Context(), backend)}
	if f.table != "" {
		return f.recordTraining(source)
	}
	var rows []pipelines.Row
	var findings []pipelines.Findings
	for _, name := range f.pipelines {
		more, found, err := runStudy(name, source)
		if err != nil {
			return errors.Join(err, f.writeResults(rows, findings))
		}
		rows, findings = append(rows, more...), append(findings, found)
	}
	return errors.Join(f.writeResults(rows, findings), pipelines.Draw(rows, f.out), pipelines.Print(command.OutOrStdout(), rows, pipelines.Compare(rows), findings))
}

// newVideoOpener opens clips of a pipeline, and what looks at them.
func (f *pipelinesFlags) newVideoOpener(ctx context.Context, backend *cpu.Backend) func(pipelines.Video) (*emulate.Clip, emulate.Tools, func(), error) {
	return func(v pipelines.Video) (*emulate.Clip, emulate.Tools, func(), error) {
		e := pipelinesEvaluation(backend)
		e.from, e.seconds, e.found, e.classes = v.From, v.Seconds, v.Found, strings.Join(v.Classes, ",")
		clip, err := e.readClip(ctx, filepath.Join(f.data, "video", v.Clip))
		if err != nil {
			return nil, emulate.Tools{}, nil, err
		}
		file := func(name string) string { return filepath.Join(f.data, "models", name) }
		tools, done, err := e.pipelineTools(ctx, clip, file(v.Network), v.Decoder, v.Image)
		if err != nil || v.Camera == "" {
			return clip, tools, done, err
		}
		camera, err := e.open(file(v.Camera), "fastestdet", "", clip)
		if err != nil {
			done()
			return nil, emulate.Tools{}, nil, err
		}
		tools.Camera = camera
		return clip, tools, func() {
			camera.detector.Close()
			done()
		}, nil
	}
}

// newDrawnTools makes what encodes drawn frames, and looks at them by a network in a file.
func (f *pipelinesFlags) newDrawnTools(ctx context.Context, backend *cpu.Backend) func(*emulate.Clip, string, string) (emulate.Tools, func(), error) {
	return func(clip *emulate.Clip, network, decoder string) (emulate.Tools, func(), error) {
		e := pipelinesEvaluation(backend)
		return e.pipelineTools(ctx, clip, network, decoder, "")
	}
}

func pipelinesEvaluation(backend *cpu.Backend) *evaluation {
	return &evaluation{evalFlags: &evalFlags{rate: pipelines.VideoRate, found: pipelines.VideoFound}, backend: backend}
}

// pipelineTools encode by the program camera.
func (e *evaluation) pipelineTools(ctx context.Context, clip *emulate.Clip, network, decoder, image string) (emulate.Tools, func(), error) {
	program, err := pipe.Find()
	if err != nil {
		return emulate.Tools{}, nil, err
	}
	client, err := pipe.Start(ctx, program)
	if err != nil {
		return emulate.Tools{}, nil, err
	}
	e.codec = &evalCodec{ctx: ctx, client: client}
	server, err := e.open(network, decoder, image, clip)
	if err != nil {
		e.codec.close()
		return emulate.Tools{}, nil, err
	}
	closeAll := func() {
		server.detector.Close()
		e.codec.close()
	}
	return emulate.Tools{Codec: e.codec, Server: server, Gradient: server, Differ: motion.Differ, Clock: processorTime}, closeAll, nil
}

// runStudy runs one pipeline.
func runStudy(name string, source pipelines.Source) ([]pipelines.Row, pipelines.Findings, error) {
	s, err := pipelines.Open(name, source)
	if err != nil {
		return nil, pipelines.Findings{}, err
	}
	defer s.Close()
	lab, say := pipeline.NewLab(s.Pipeline), progressOf()
	rows, err := pipelines.Run(s, lab, say)
	if err != nil {
		return nil, pipelines.Findings{}, err
	}
	found, err := pipelines.Find(s, lab)
	say("", 0, 0)
	return rows, found, err
}

// recordTraining writes what a policy is trained on.
func (f *pipelinesFlags) recordTraining(source pipelines.Source) error {
	if len(f.pipelines) != 1 {
		return cli.UsageError("--record: of one pipeline, which --pipelines names")
	}
	s, err := pipelines.Open(f.pipelines[0], source)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Ladders == nil {
		return cli.UsageError("--record: nothing learns pipeline %s", s.Name())
	}
	say := progressOf()
	table, err := casva.RecordTable(pipeline.NewLab(s.Pipeline), s.Ladders, func(interval, of int) { say(fmt.Sprintf("interval %d", interval), interval, of) })
	if err != nil {
		return err
	}
	return cli.WriteFile(filepath.Join(f.out, f.table), func(w *os.File) error { return table.Write(w) })
}

func (f *pipelinesFlags) writeResults(rows []pipelines.Row, findings []pipelines.Findings) error {
	return errors.Join(
		cli.WriteFile(filepath.Join(f.out, "results.csv"), func(w *os.File) error { return pipelines.Write(w, rows) }),
		cli.WriteFile(filepath.Join(f.out, "gains.csv"), func(w *os.File) error { return pipelines.WriteGains(w, pipelines.Compare(rows)) }),
		cli.WriteFile(filepath.Join(f.out, "gradients.csv"), func(w *os.File) error { return pipelines.WriteFindings(w, findings) }))
}
