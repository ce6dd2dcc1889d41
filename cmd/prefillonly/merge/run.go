package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/generations"
	"github.com/prefillonly/prefillonly/merging/local"
	"github.com/prefillonly/prefillonly/merging/search"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// runFlags are those of `prefillonly merge run`.
type runFlags struct {
	data, decoders      []string
	config, out, policy string
	target              float64
	budget              time.Duration
	seed                uint64
	server, keyFile     string
	collect             time.Duration
	trainerOf           func(search.Policy) merging.Trainer
	openServer          func(address, keyFile string) (Get, error)
}

func newRun(f *runFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "run NETWORK.onnx... --data MODEL=CLIP,... --out DIR",
		Short: "Train networks until they share weights, as far as their accuracy allows",
		Long: `Finds layers that networks can share, and trains what is left to them, on frames of a clip for each: a network is to find what
its own file's network finds there. Groups of equal layers (see prefillonly merge plan) are tried by --policy:

  adopt  model by model, the groups that save 96.5 % of its bytes at once, then the rest: it takes the weights of the member that
         costs most a frame (of several, of the one named first), which stays as it is, bit for bit; half of the groups where
         that fails; one alone by joint training
  joint  one after the other, those that save most first, trained jointly by all members (GEMEL, NSDI 2023)
  stem   beginnings alone, the longest that meets the target, by bisection (Mainstream, ATC 2018)
  mean   all at once: members have the mean of their weights; half of the groups where that fails

A model meets its target when the lower bound (of a 90 % interval) of its score on frames held out, which are in turns along its
clip with those trained on, is --target of what its file has. Each success is a generation in --out: a file for each model, which
differs from the original in some constants' elements alone, and merge.json, which says what is shared, the scores, sums and bytes.
DIR/current leads to the last, and DIR/report.html shows it. A run that was stopped, in whatever way, goes on when it is called
again, and comes to the same end.

A clip stream:NAME is made of the pictures that a stream of the --server shows (GET /v1/video/streams/NAME/frame.jpg), for the
time of --collect, and kept in --out, where it is used again. The server's API key is read from --api-key-file, or from
PREFILLONLY_API_KEY.

Models are called after their files, or as in --config, whose models of ONNX are merged if no files are given.

Decoders:
` + vision.Help(),
		Example: `  prefillonly merge run yolox_nano.onnx person.onnx --data yolox_nano=street.mp4,person=door.mp4 --target 0.95 --budget 10m --out merged
  prefillonly merge run --config models.yaml --data clip.mp4 --out merged
  prefillonly merge run --config models.yaml --data person=stream:door,cars=stream:gate --server http://gpu7:8000 --collect 30m --out merged`,
		RunE: func(command *cobra.Command, files []string) error { return f.run(command, files) },
	}
	flags := command.Flags()
	flags.StringSliceVar(&f.data, "data", nil, "clip of each model, `MODEL=CLIP,...`: a file, or stream:NAME; CLIP alone is every model's")
	flags.StringVar(&f.server, "server", "", "running server, `http://HOST:PORT`, whose streams are clips")
	flags.StringVar(&f.keyFile, "api-key-file", "", "`FILE` whose first line is the server's API key (default: PREFILLONLY_API_KEY)")
	flags.DurationVar(&f.collect, "collect", 10*time.Minute, "time for which streams are looked at")
	flags.StringSliceVar(&f.decoders, "decoder", nil, "what a model's outputs mean, `MODEL=DECODER,...`; DECODER alone is every model's (default: the likeliest of those that suit)")
	flags.StringVar(&f.config, "config", "", "configuration file with the models' names, files and decoders")
	flags.StringVar(&f.out, "out", "", "directory for the merge, which goes on if there is one of the same inputs")
	flags.StringVar(&f.policy, "policy", string(search.Adopt), "what is tried: "+strings.Join(search.Policies(), ", "))
	flags.Float64Var(&f.target, "target", 0.95, "least share of its file's score that a model keeps")
	flags.DurationVar(&f.budget, "budget", 10*time.Minute, "time after which nothing more is tried")
	flags.Uint64Var(&f.seed, "seed", 1, "of the order of frames and how they are altered")
	cli.CompleteFlag(command, "policy", cobra.FixedCompletions(search.Policies(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (f *runFlags) check() error {
	switch {
	case f.out == "":
		return cli.UsageError("say with --out which directory the merge is for")
	case !(f.target > 0 && f.target <= 1):
		return cli.UsageError("invalid --target %g: want above 0 and at most 1, such as 0.95", f.target)
	case f.collect <= 0:
		return cli.UsageError("invalid --collect %v: want above 0, such as 10m", f.collect)
	case f.budget <= 0:
		return cli.UsageError("invalid --budget %v: want above 0, such as 10m", f.budget)
	}
	if err := search.Policy(f.policy).Check(); err != nil {
		return cli.UsageError("--policy: %w", err)
	}
	return nil
}

func (f *runFlags) run(command *cobra.Command, files []string) error {
	if err := f.check(); err != nil {
		return err
	}
	networks, err := f.networks(files)
	if err != nil {
		return err
	}
	inputs := generations.Inputs{Policy: f.policy, Target: f.target, Seed: f.seed}
	run := &generations.Run{
		Options: search.Options{Policy: search.Policy(f.policy), Target: f.target, Budget: f.budget, Rate: local.AdoptionRate, Decay: local.AdoptionDecay, Joint: jointRate(search.Policy(f.policy)), Cost: costs(networks)},
	}
	var described []merging.Model
	for _, n := range networks {
		described = append(described, n.layers)
	}
	if run.Plan = merging.NewPlan(described); len(run.Plan.Groups) == 0 {
		return fmt.Errorf("%s have no layers alike: nothing could be shared", strings.Join(names(networks), ", "))
	}
	progress := newProgress(command.ErrOrStderr(), run.Plan, f.budget)
	if err := f.addClips(command.Context(), networks, progress); err != nil {
		return err
	}
	var opened []merging.TrainedModel
	for _, n := range networks {
		inputs.Models = append(inputs.Models, n.Input)
		opened = append(opened, merging.TrainedModel{Name: n.Name, File: n.File, Decoder: n.Decoder, Clip: n.Clip})
	}
	dir, err := generations.Open(f.out, inputs)
	if err != nil {
		return err
	}
	began := time.Now()
	run.Tell, run.Clock = progress.tell, func() time.Duration { return time.Since(began) }
	run.Open = func(ctx context.Context) (merging.Session, error) {
		return f.trainerOf(run.Options.Policy).Open(ctx, opened, f.seed)
	}
	done, err := dir.Carry(command.Context(), run)
	progress.end()
	if err == nil && !done.Refused {
		err = writeReport(command.Context(), f.out, run.Plan, opened)
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		return f.explain(err)
	}
	if done.Refused {
		return errors.New(done.Reason)
	}
	return writeStatus(command.OutOrStdout(), f.out, false)
}

// explain says of an error that stops a merge how it goes on.
func (f *runFlags) explain(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("stopped; the same command goes on from %s", f.out)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room, and the same command goes on from there", err)
	}
	return err
}

// jointRate is the rate of joint training; for the paper's policy it is the paper's.
func jointRate(p search.Policy) float64 {
	if p == search.Joint {
		return 1e-5
	}
	return local.JointRate
}

// costs are those of the models' frames: operations, where the files tell them of all, else bytes of weights.
func costs(networks []network) (list []float64) {
	counted := !slices.ContainsFunc(networks, func(n network) bool { return n.flop == 0 })
	for _, n := range networks {
		if cost := float64(n.layers.Bytes()); counted {
			list = append(list, float64(n.flop))
		} else {
			list = append(list, cost)
		}
	}
	return list
}

func names(networks []network) (list []string) {
	for _, n := range networks {
		list = append(list, n.Name)
	}
	return list
}

// perModel reads MODEL=VALUE for each of some models, or one VALUE for all.
func perModel(flag string, values, models []string) (map[string]string, error) {
	of := map[string]string{}
	for _, v := range values {
		name, value, named := strings.Cut(v, "=")
		switch {
		case !named:
			for _, m := range models {
				of[m] = v
			}
		case !slices.Contains(models, name):
			return nil, cli.UsageError("--%s: no model is called %q: want one of %s", flag, name, strings.Join(models, ", "))
		default:
			of[name] = value
		}
	}
	return of, nil
}
