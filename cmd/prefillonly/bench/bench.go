// Package bench holds the subcommands over the package of its name: `bench`, load on a server and charts of it, and
// `simulate`, the paper's experiments.
package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/bench"
	"github.com/prefillonly/prefillonly/bench/load"
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/cli"
)

// benchFlags are what `bench serve` and `bench sweep` have in common.
type benchFlags struct {
	client     load.Options
	workload   string
	scale      float64
	scaleUsers float64
	sessions   bool
	gap        time.Duration
	prompts    int
	seed       uint64
	keyFile    string
	csv        string
	vocabulary string
}

// New makes `prefillonly bench`.
func New() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "bench",
		Short: "Put load on a server and measure it",
	}, newBenchServeCommand(), newBenchSweepCommand(), newBenchCamerasCommand(), newBenchPlotCommand())
}

func (f *benchFlags) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.client.BaseURL, "base-url", "http://127.0.0.1:8000", "address of the server")
	flags.StringVar(&f.client.Model, "model", "", "model to ask for (default: the first the server lists)")
	flags.StringVar(&f.keyFile, "api-key-file", "", "file whose first line is the API key")
	flags.DurationVar(&f.client.Timeout, "timeout", 10*time.Minute, "time after which a request is given up")
	flags.IntVar(&f.client.MaxConcurrency, "max-concurrency", 0, "most requests in flight; with all requests due at once, a closed loop (default: no bound)")
	flags.BoolVar(&f.client.Text, "text", false, "send synthetic prompts as words rather than as token ids")
	flags.StringVar(&f.vocabulary, "vocabulary", "100:1000", "range of the token ids in synthetic prompts, LOW:HIGH, HIGH not included")
	flags.StringVar(&f.workload, "workload", "post-recommendation", "post-recommendation, credit-verification, short-prompts, or a trace file")
	flags.Float64Var(&f.scale, "scale", 1, "multiply the workload's lengths in tokens")
	flags.Float64Var(&f.scaleUsers, "scale-users", 1, "multiply the workload's number of users")
	flags.BoolVar(&f.sessions, "sessions", false, "users arrive as a Poisson process, each one's requests --gap apart (default: every request is its own arrival)")
	flags.DurationVar(&f.gap, "gap", 100*time.Millisecond, "time between the requests of a session")
	flags.IntVar(&f.prompts, "num-prompts", 0, "send only the first requests of the workload (default: all)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of lengths, contents and arrivals")
	flags.StringVar(&f.csv, "csv", "", "write the measurements to this file")
	cli.CompleteFlag(command, "workload", cobra.FixedCompletions([]string{load.PostRecommendation().Name, load.CreditVerification().Name, load.ShortPrompts().Name}, cobra.ShellCompDirectiveDefault))
}

// prepare reads what the flags name and connects to the server.
func (f *benchFlags) prepare(ctx context.Context) (*load.Client, error) {
	var err error
	if f.client.APIKey, err = readKey(f.keyFile); err != nil {
		return nil, err
	}
	low, high, _ := strings.Cut(f.vocabulary, ":")
	from, errLow := strconv.ParseUint(low, 10, 32)
	to, errHigh := strconv.ParseUint(high, 10, 32)
	if err := errors.Join(errLow, errHigh); err != nil {
		return nil, cli.UsageError("vocabulary %q is not of the form LOW:HIGH: %w", f.vocabulary, err)
	}
	f.client.Vocabulary = load.Vocabulary{Low: engine.TokenID(from), High: engine.TokenID(to)}
	client, err := load.New(f.client)
	if err != nil {
		return nil, err
	}
	if _, err := client.Connect(ctx); err != nil {
		return nil, err
	}
	return client, nil
}

// readKey is the first line of a file; without a file it is empty.
func readKey(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	key, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the API key: %w", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(key)), "\n")
	return first, nil
}

// makeRequests makes the workload at a rate, or reads the trace; rate 0 keeps the trace's own times.
func (f *benchFlags) makeRequests(rate float64) ([]load.Request, error) {
	spec, err := load.Named(f.workload)
	var requests []load.Request
	if err != nil {
		requests, err = f.readTrace(rate, err)
	} else if spec, err = spec.Scale(f.scale, f.scaleUsers); err == nil {
		if rate == 0 {
			rate = math.Inf(1)
		}
		requests, err = spec.Generate(load.Arrivals{Rate: rate, Sessions: f.sessions, Gap: f.gap}, f.seed)
	}
	if err != nil {
		return nil, err
	}
	if f.prompts > 0 && f.prompts < len(requests) {
		requests = requests[:f.prompts]
	}
	return requests, nil
}

func (f *benchFlags) readTrace(rate float64, unknown error) ([]load.Request, error) {
	file, err := os.Open(f.workload)
	if errors.Is(err, os.ErrNotExist) {
		return nil, cli.UsageError("%w, and no trace file has this name", unknown)
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	requests, err := load.ReadTrace(file, f.workload)
	if err != nil || rate == 0 {
		return requests, err
	}
	if err := (load.Arrivals{Rate: rate}).Validate(); err != nil {
		return nil, err
	}
	load.Poisson(requests, rate, rand.New(rand.NewPCG(f.seed, 2)))
	return requests, nil
}

// measure returns the function that bench runs its traces through: with a live bar where a person
// is watching.
func (f *benchFlags) measure(client *load.Client) bench.Measure {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return client.Run
	}
	return func(ctx context.Context, requests []load.Request) ([]load.Record, error) {
		bar := load.NewProgress(os.Stderr, len(requests))
		defer bar.Close()
		return client.Observing(bar.Observe).Run(ctx, requests)
	}
}

func parseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, cli.UsageError("request rate %q is neither a number of requests per second nor inf", text)
	}
	return rate, load.Arrivals{Rate: rate}.Validate()
}

// parseMultiples reads numbers between commas, inf among them; an empty text is an empty list.
func parseMultiples(text string) ([]float64, error) {
	var list []float64
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		m, err := strconv.ParseFloat(part, 64)
		if err != nil || !(m > 0) {
			return nil, cli.UsageError("multiple %q of %q is neither a number above 0 nor inf", part, text)
		}
		list = append(list, m)
	}
	return list, nil
}

func newBenchServeCommand() *cobra.Command {
	var f benchFlags
	var rateText, save string
	command := &cobra.Command{
		Use:   "serve",
		Short: "Replay a workload or a trace against a server",
		Args:  cobra.NoArgs,
		Example: `  prefillonly bench serve --workload post-recommendation --scale 0.05 --request-rate 4
  prefillonly bench serve --workload trace.jsonl --base-url http://10.0.0.7:8000 --csv out.csv`,
		RunE: func(command *cobra.Command, _ []string) error {
			rate, err := parseRate(rateText)
			if err != nil {
				return err
			}
			requests, err := f.makeRequests(rate)
			if err != nil {
				return err
			}
			if save != "" {
				if err := cli.WriteFile(save, func(w *os.File) error { return load.WriteTrace(w, requests) }); err != nil {
					return err
				}
			}
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt) // what is measured by then is kept
			defer stop()
			client, err := f.prepare(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
			records, err := f.measure(client)(ctx, requests)
			if len(records) > 0 {
				fmt.Fprint(command.OutOrStdout(), bench.Report(load.Summarize(records)))
			}
			if f.csv != "" {
				err = errors.Join(err, cli.WriteFile(f.csv, func(w *os.File) error { return load.WriteCSV(w, records) }))
			}
			return err
		},
	}
	f.register(command)
	command.Flags().StringVar(&rateText, "request-rate", "", "mean requests per second, or inf for all at once (default: inf, or a trace's own times)")
	command.Flags().StringVar(&save, "save-trace", "", "also write the requests to this trace file")
	return command
}

func newBenchSweepCommand() *cobra.Command {
	var f benchFlags
	var sweep bench.Sweep
	var multiples string
	command := &cobra.Command{
		Use:   "sweep",
		Short: "Measure saturation x, then latency at x/4, x/2, x, 2x, 3x and 4x requests per second",
		Long: `Sends the whole workload at once and takes the answered requests per second as the saturation x,
then replays it at x/4, x/2, x, 2x, 3x and 4x, as the paper does, or at other multiples of x. To compare servers at the same
rates, give the x that one of them reached to the others by --saturation.`,
		Example: `  prefillonly bench sweep --scale 0.05 --label prefillonly --csv sweep.csv
  prefillonly bench sweep --scale 0.05 --label vllm --saturation 11.7 --base-url http://127.0.0.1:9000 --csv vllm.csv
  prefillonly bench plot sweep.csv vllm.csv --out figures`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if sweep.Multiples, err = parseMultiples(multiples); err != nil {
				return err
			}
			sweep.Requests = f.makeRequests
			sweep.Workload = f.workload
			if _, err := f.makeRequests(1); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt)
			defer stop()
			client, err := f.prepare(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
			points, err := sweep.Run(ctx, f.measure(client), command.OutOrStdout())
			if f.csv != "" {
				err = errors.Join(err, cli.WriteFile(f.csv, func(w *os.File) error { return bench.WritePoints(w, points) }))
			}
			return err
		},
	}
	f.register(command)
	command.Flags().StringVar(&sweep.Label, "label", "prefillonly", "name of the server in the CSV and the figures")
	command.Flags().Float64Var(&sweep.Saturation, "saturation", 0, "requests per second to take as x (default: measure it)")
	command.Flags().StringVar(&multiples, "multiples", "", "multiples of x to send at, inf for all at once (default: 0.25,0.5,1,2,3,4)")
	return command
}

func newBenchPlotCommand() *cobra.Command {
	var out, csv string
	var bound time.Duration
	command := &cobra.Command{
		Use:   "plot SWEEP.csv...",
		Short: "Draw the figures of one or more sweeps",
		Long: `Draws the figures of one or more sweeps. Sweeps of the same label and rates are taken for repeated rounds:
the medians are drawn, and a table of them with the lowest and highest round is printed.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, paths []string) error {
			var points []bench.Point
			for _, path := range paths {
				file, err := os.Open(path)
				if err != nil {
					return err
				}
				read, err := bench.ReadPoints(file, path)
				file.Close()
				if err != nil {
					return err
				}
				points = append(points, read...)
			}
			medians, table := bench.Medians(points)
			if len(medians) < len(points) {
				fmt.Fprintln(command.OutOrStdout(), table.Markdown())
			}
			points = medians
			if csv != "" {
				if err := cli.WriteFile(csv, func(w *os.File) error { return bench.WritePoints(w, points) }); err != nil {
					return err
				}
			}
			if bound > 0 {
				fmt.Fprint(command.OutOrStdout(), bench.Sustained(points, bound).Markdown())
			}
			return bench.PlotSweep(points, out)
		},
	}
	command.Flags().StringVar(&out, "out", ".", "folder for the figures")
	command.Flags().StringVar(&csv, "csv", "", "also write all points to this file, medians in place of rounds")
	command.Flags().DurationVar(&bound, "p99", 0, "also print the highest rate that each server answered within this P99 latency")
	return command
}
