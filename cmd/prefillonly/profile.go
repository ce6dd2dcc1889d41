package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/profile"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/dirlock"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/osthread"
)

// newProfileCommand makes `prefillonly profile`, whose device open opens.
func newProfileCommand(open roles.Opener) *cobra.Command {
	command := &cobra.Command{
		Use:   "profile [MODEL]",
		Short: "Measure what passes cost, for the scheduler to predict by",
		Long: `Runs prompts of many lengths, with and without a cached prefix, fits the cost model
    time = base + token*(n_input - n_cached) + pair*(n_input^2 - n_cached^2)/2
and stores it for this model on this device, where executors find it when they start. Of a network it times
frames, larger ones where it takes any size, and gradients, as executors do that find nothing stored. Run it on a quiet machine; a profile is
refined while serving.`,
		Example: `  prefillonly profile ./Qwen2.5-0.5B --max-tokens 8192
  prefillonly profile --step 1000                   the paper's grid, on the demo model
  prefillonly profile yolox_nano.onnx               a network`,
		Args: cobra.MaximumNArgs(1),
	}
	var options profile.Options
	command.Flags().IntVar(&options.MaxTokens, "max-tokens", 8192, "longest prompt to measure")
	command.Flags().IntVar(&options.Step, "step", 0, "step between prompt lengths; 0 doubles them from 64 on")
	command.Flags().IntVar(&options.Repeat, "repeat", 3, "runs of each point; the median counts")
	return settings.Configured(command, config.Executor, func(cfg *config.Config, log *zap.Logger) error {
		return osthread.Do(func() error { return runProfile(open, command.OutOrStdout(), cfg, options, log) })
	})
}

func runProfile(open roles.Opener, out io.Writer, cfg *config.Config, options profile.Options, log *zap.Logger) error {
	_, remove, err := roles.Prepare(context.Background(), cfg, false, log)
	if err != nil {
		return err
	}
	defer remove()
	if len(cfg.Models) > 1 {
		return cli.Exit(cli.ExitConfig, fmt.Errorf("%d models are given, want the one to measure", len(cfg.Models)))
	}
	if err := roles.NameGPUs(cfg, false, log); err != nil {
		return err
	}
	path := cfg.Models[0].Profile
	cfg.Models[0].Profile = "" // what is measured must not be read first
	if cfg.Models[0].Task == config.TaskInfer {
		return profileNetwork(out, cfg, path, log)
	}
	r, err := open(cfg, nil, roles.NewVitals("profile", false, log), log)
	if err != nil {
		return err
	}
	defer r.Close()
	device, model := r.Info().Device, &r.Info().Models[0]
	if path, err = profilePath(path, device, model); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s on %s\n%9s %9s %11s\n", model.Name, device, "n_input", "n_cached", "ms")
	options.Progress = func(_, _ int, s profile.Sample) {
		fmt.Fprintf(out, "%9d %9d %11.3f\n", s.Input, s.Cached, s.Took.Seconds()*1e3)
	}
	samples, err := profile.Measure(r, model.Name, options)
	if err != nil {
		return err
	}
	fit, err := profile.FitSamples(samples)
	if err != nil {
		return err
	}
	file := profile.File{Device: device, Model: model.Name, Fingerprint: model.Fingerprint, Fit: fit, Samples: samples}
	if err := profile.Save(path, file); err != nil {
		return err
	}
	fmt.Fprintf(out, `base %v, %v a token, %.3g ns a pair of attention
Pearson correlation of time with cache-miss tokens %.4f
R^2 linear %.4f, with the attention term %.4f; largest relative error %.0f %%
with --fairness %v a second of waiting outweighs %.2g s of work
stored in %s
`, fit.Base, fit.Unit, fit.Pair*1e9, fit.Pearson, fit.Linear, fit.R2, 100*fit.Worst,
		cfg.Scheduler.Fairness, cfg.Scheduler.Fairness*fit.Unit.Seconds(), path)
	return nil
}

// profileNetwork stores what an executor measures that loads a network and finds no profile.
func profileNetwork(out io.Writer, cfg *config.Config, path string, log *zap.Logger) error {
	dir, lock, err := dirlock.Temp(os.TempDir(), "prefillonly_")
	if err != nil {
		return err
	}
	defer lock.Close()
	defer os.RemoveAll(dir)
	tensors := roles.NewBlobs(cfg, 0)
	defer tensors.Close()
	o := roles.DeviceOptions(cfg, log)
	o.CacheDir, o.Blobs, o.Models = dir, tensors, modellist.Hosted(cfg)
	r, err := device.Open(o)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, w := range r.Info().Models[0].Weights {
		if err := executor.Load(r, cfg.Models[0].Names[0], w); err != nil {
			return err
		}
	}
	on, model := r.Info().Device, r.Info().Models[0]
	fit := profile.Fit{Base: model.Cost.Base, Unit: model.Cost.Unit, Step: model.Step, Growth: model.Tensors.Growth, Backward: model.Tensors.Backward}
	if path, err = profilePath(path, on, &model); err == nil {
		err = profile.Save(path, profile.File{Device: on, Model: model.Name, Fingerprint: model.Fingerprint, Fit: fit})
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s on %s\nbase %v, %v a frame, its gradient %.2f frames more, longest step %v\n",
		model.Name, on, fit.Base, fit.Unit, fit.Backward, fit.Step)
	if fit.Growth > 0 {
		fmt.Fprintf(out, "a frame of twice the elements costs %.2f\n", 1+fit.Growth)
	}
	fmt.Fprintf(out, "stored in %s\n", path)
	return nil
}

// profilePath is where a profile is to be stored: where the user says, or where it is looked for.
func profilePath(given, device string, model *wire.ModelInfo) (string, error) {
	if given != "" {
		return given, nil
	}
	return defaultProfile(device, model)
}

// defaultProfile is where the profile of a model on a device is kept.
func defaultProfile(device string, model *wire.ModelInfo) (string, error) {
	dir, err := cli.CacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for profiles: %w; name a file with --profile", err)
	}
	return profile.Path(dir, device, model), nil
}
