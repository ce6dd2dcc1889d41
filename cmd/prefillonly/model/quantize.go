package model

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/engine/weights/quantize"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/modellist"
)

// newQuantize makes `prefillonly model quantize`.
func newQuantize() *cobra.Command {
	command := &cobra.Command{
		Use:   "quantize MODEL",
		Short: "Write a copy of a checkpoint with its projections in int8 (W8A8, W8A16)",
		Long: `Writes a copy of a decoder's checkpoint whose projections (q, k, v, o, gate, up, down) are codes of a byte with a
scale for each row, rounded to nearest, as compressed-tensors has them and serve, vLLM and transformers read them.
With --scheme W8A8 activations are quantised as they come, each token by itself; with W8A16 they are left alone: that loses
less, and is no faster than bfloat16. Embeddings, norms, the LM head and classification heads stay as they are.

With --lm-head the LM head becomes int8, too: it is a good part of what few tokens read of a small model. Where the embedding is
the head (tie_word_embeddings), the codes are beside the embedding, which stays, and config.json says so.

In trained models a few channels of activations are much larger than others, so that one scale fits a token badly.
With --calibration the model is run, in memory, over the prompts of a file (JSON lines, each with a prompt, text, messages
or prompt_token_ids; 2,048 tokens of each at the most), and a part of that spread is moved from the norms before q, k, v,
gate and up into these (SmoothQuant): the result is as before, but for rounding. A few hundred prompts such as the model
will be asked are enough.

The copy appears when all of it is written; until then it is beside, under a name that begins with a dot. What a run
leaves there that was killed is removed by the next one to the same directory. What is lost in quality depends on the
model: compare before you serve it.`,
		Example: "  prefillonly model quantize ./Qwen2.5-0.5B --out ./Qwen2.5-0.5B-W8A8\n  prefillonly serve ./Qwen2.5-0.5B-W8A8\n  prefillonly model quantize ./Qwen2.5-0.5B --out ./smoothed --calibration prompts.jsonl\n  prefillonly model quantize ./Qwen2.5-0.5B --out ./with-head --lm-head",
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: cli.Directories,
	}
	out := command.Flags().String("out", "", "directory of the copy: empty, or new")
	scheme := command.Flags().String("scheme", string(quantize.W8A8), "what becomes int8: weights and activations (W8A8), or weights alone (W8A16)")
	cli.CompleteFlag(command, "scheme", cobra.FixedCompletions([]string{string(quantize.W8A8), string(quantize.W8A16)}, cobra.ShellCompDirectiveNoFileComp))
	head := command.Flags().Bool("lm-head", false, "also quantise the LM head")
	calibration := command.Flags().String("calibration", "", "`file` of prompts for smoothing activations: JSON lines with prompt, text, messages or prompt_token_ids")
	strength := command.Flags().Float64("smoothing-strength", 0.5, "share of the activations' spread that is moved into weights, 0 to 1 (SmoothQuant's alpha)")
	cli.CompleteFlag(command, "calibration", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	command.RunE = func(command *cobra.Command, args []string) error {
		options := quantize.Options{Scheme: quantize.Scheme(*scheme), LMHead: *head, Progress: cli.ProgressBar("quantizing")}
		if *calibration != "" {
			options.Smoothing = &quantize.Smoothing{Strength: *strength}
		}
		switch err := options.Check(); {
		case *out == "":
			return cli.UsageError("--out is missing: name the directory of the copy")
		case err != nil:
			return cli.UsageError("%v", err)
		case *calibration == "" && command.Flags().Changed("smoothing-strength"):
			return cli.UsageError("--smoothing-strength needs --calibration")
		}
		from, _, err := modellist.Find(args[0], "", modellist.Cached)
		if err == nil && gguf.IsName(from) {
			err = fmt.Errorf("%s is a GGUF file, whose weights have few bits already: quantize the safetensors that it was made of", from)
		}
		if err != nil {
			return modelError(err)
		}
		return quantizeModel(command, from, *out, *calibration, options)
	}
	return command
}

// quantizeModel writes the copy, and says what it is.
func quantizeModel(command *cobra.Command, from, to, prompts string, options quantize.Options) error {
	how := ""
	if options.Smoothing != nil {
		c, err := openCalibration(from, prompts)
		if err != nil {
			return modelError(err)
		}
		defer c.close()
		options.Smoothing.Peaks = func(ctx context.Context) (map[string][]float32, error) {
			peaks, err := c.measurePeaks(ctx)
			how = "; " + c.String()
			return peaks, err
		}
	}
	ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	done, err := quantize.Run(ctx, from, to, options)
	if ctx.Err() != nil {
		return cli.Exit(cli.ExitFailure, errors.New("interrupted; nothing was written"))
	}
	if errors.Is(err, quantize.ErrNoLMHead) {
		return cli.UsageError("--lm-head: %v", err)
	}
	if err != nil {
		return modelError(err)
	}
	_, err = fmt.Fprintf(command.OutOrStdout(), "%s: %d matrices in int8, %s of tensors, which were %s%s\n", to, done.Matrices, formatBytes(done.After), formatBytes(done.Before), how)
	return err
}
