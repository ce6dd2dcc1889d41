package bench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/bench/load"
	"github.com/prefillonly/prefillonly/internal/cli"
)

func newBenchCamerasCommand() *cobra.Command {
	var o load.FrameOptions
	var keyFile, picture string
	command := &cobra.Command{
		Use:   "cameras",
		Short: "Send frames of cameras to a network and count those answered in time",
		Long: `Sends frames at steady times, by the Open Inference Protocol, each with the camera's deadline: what the server
cannot promise it refuses, and what would be late it drops. A frame that is due is sent whatever became of those before.`,
		Args:    cobra.NoArgs,
		Example: `  prefillonly bench cameras --model yolox_nano_416 --cameras 2 --fps 10 --deadline 100ms --duration 5m`,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if o.APIKey, err = readKey(keyFile); err != nil {
				return err
			}
			if picture != "" {
				if o.Picture, err = os.ReadFile(picture); err != nil {
					return err
				}
			}
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt) // what is measured by then is kept
			defer stop()
			client, err := load.NewFrameClient(o)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			defer client.Close()
			return runCameras(ctx, command, client)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.BaseURL, "base-url", "http://127.0.0.1:8000", "address of the server")
	flags.StringVar(&o.Model, "model", "", "network to ask")
	flags.StringVar(&keyFile, "api-key-file", "", "file whose first line is the API key")
	flags.IntVar(&o.Cameras, "cameras", 1, "number of cameras")
	flags.Float64Var(&o.Rate, "fps", 10, "frames a second per camera")
	flags.DurationVar(&o.Deadline, "deadline", 100*time.Millisecond, "time within which a frame must be answered")
	flags.DurationVar(&o.Duration, "duration", time.Minute, "length of the run")
	flags.StringVar(&picture, "picture", "", "JPEG or PNG file that is every frame (default: random values in the model's own shape)")
	flags.BoolVar(&o.Best, "best-effort", false, "ask for no promise: frames are always taken, and may be late")
	_ = command.MarkFlagRequired("model")
	return command
}

func runCameras(ctx context.Context, command *cobra.Command, client *load.FrameClient) error {
	if err := client.Connect(ctx); err != nil {
		return err
	}
	seconds, frames, before := client.Seconds(ctx)
	s := load.SummarizeFrames(client.Run(ctx))
	more, after, err := client.Seconds(context.WithoutCancel(ctx))
	out := command.OutOrStdout()
	fmt.Fprintf(out, "frames    %d: %d in time, %d late, %d refused, %d failed\n", s.Frames,
		s.Counts[load.InTime], s.Counts[load.Late], s.Counts[load.Refused], s.Counts[load.Failed])
	if s.Worst != "" {
		fmt.Fprintf(out, "          such as: %s\n", s.Worst)
	}
	fmt.Fprintf(out, "latency   P50 %.1f ms, P99 %.1f ms, P100 %.1f ms\n",
		milliseconds(load.Percentile(s.Latency, 50)), milliseconds(load.Percentile(s.Latency, 99)), milliseconds(load.Percentile(s.Latency, 100)))
	if before == nil && err == nil && after > frames {
		fmt.Fprintf(out, "computing %.2f ms a frame, by the server's count\n", 1000*(more-seconds)/float64(after-frames))
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
