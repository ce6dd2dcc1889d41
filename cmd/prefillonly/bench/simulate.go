package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/bench"
	"github.com/prefillonly/prefillonly/internal/cli"
)

// NewSimulate makes `prefillonly simulate`.
func NewSimulate() *cobra.Command {
	x := bench.Experiments{}
	var csv string
	names, about := bench.ExperimentNames()
	var list strings.Builder
	for i, name := range names {
		fmt.Fprintf(&list, "  %-12s %s\n", name, about[i])
	}
	command := &cobra.Command{
		Use:   "simulate EXPERIMENT...",
		Short: "Run the paper's experiments on the real scheduler with simulated GPUs",
		Long: `Drives the scheduler that serves, with a virtual clock and executors made of a cost model calibrated
on the paper's machines, and writes the figures beside the published ones. The same seed gives the
same bytes. Experiments:

` + list.String(),
		Example: `  prefillonly simulate table-5.2 --csv table.csv
  prefillonly simulate figure-5.3 figure-5.4 figure-5.5 figure-5.6 figure-5.7 --out figures
  prefillonly simulate stages --csv stages`,
		Args: cobra.MatchAll(cobra.MinimumNArgs(1), func(_ *cobra.Command, args []string) error {
			return bench.CheckExperiments(args)
		}),
		ValidArgs: names,
		RunE: func(command *cobra.Command, args []string) error {
			x.Log = command.OutOrStdout()
			if x.Repeats < 1 {
				return cli.UsageError("repeats %d is below 1", x.Repeats)
			}
			if x.Users < 1 {
				return cli.UsageError("users %d is below 1", x.Users)
			}
			switch {
			case csv == "":
			case slices.Equal(args, []string{"table-5.2"}):
				return saveTable52(x.Log, csv)
			case slices.Equal(args, []string{"stages"}):
				x.Out = csv
			default:
				return cli.UsageError("--csv names the file of table-5.2 or the folder of stages; give --out a folder for %s", strings.Join(args, ", "))
			}
			x.Progress = bench.NewProgress(command.ErrOrStderr(), term.IsTerminal(int(os.Stderr.Fd()))).Show
			for _, name := range args {
				if err := x.Run(name); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(x.Log, "written to %s\n", x.Out)
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&csv, "csv", "", "file for table-5.2, or folder for stages as --out")
	flags.StringVar(&x.Out, "out", "figures", "folder for CSV files and figures")
	flags.Uint64Var(&x.Seed, "seed", 1, "seed of all requests and arrivals")
	flags.IntVar(&x.Users, "users", 100_000, "users of the experiment scale; each sends ten requests")
	flags.IntVar(&x.Repeats, "repeats", 3, "runs with different seeds for each point of a figure")
	return command
}

// saveTable52 shows the table and writes it to a file.
func saveTable52(out io.Writer, file string) error {
	table, err := bench.Table52()
	if err != nil {
		return err
	}
	if err := cli.WriteFile(file, func(w *os.File) error { return table.CSV(w) }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\nwritten to %s\n", table.Markdown(), file)
	return err
}
