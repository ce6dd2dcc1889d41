package merge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/merging/generations"
)

func newStatus() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:     "status DIR",
		Short:   "Say how a merge stands: what is shared, at which scores, and whether it goes on",
		Example: "  prefillonly merge status merged --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return writeStatus(command.OutOrStdout(), args[0], asJSON)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func writeStatus(w io.Writer, dir string, asJSON bool) error {
	s, err := generations.Read(dir)
	if err != nil {
		return err
	}
	var out strings.Builder
	if asJSON {
		encoder := json.NewEncoder(&out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(s)
	} else {
		describeStatus(&out, s)
	}
	if err == nil {
		_, err = io.WriteString(w, out.String())
	}
	return err
}

func describeStatus(w io.Writer, s *generations.Status) {
	rows := []string{"GENERATION\tSAVES MIB\tOF ALL\tSHIPS MIB\tSCORES (AT LEAST)"}
	for _, g := range s.Generations {
		name, scores := fmt.Sprint(g.Generation), []string{}
		if s.Current != nil && g.Generation == s.Current.Generation {
			name += " (current)"
		}
		for _, m := range g.Models {
			scores = append(scores, fmt.Sprintf("%s %.3f (%.3f)", m.Name, m.Value, m.Low))
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%.1f %%\t%s\t%s", name, mebibytes(g.SharedBytes), g.SharedPercent, mebibytes(g.ShipBytes), strings.Join(scores, ", ")))
	}
	cli.Table(w, rows...)
	describeDrift(w, s)
	state := "stopped; prefillonly merge run goes on"
	switch {
	case s.Running != "":
		state = "under way, in process " + s.Running
	case s.Ended != "":
		state = "ended: " + s.Ended
	}
	fmt.Fprintf(w, "\nattempts: %d, in %.1f s, %s.\n", s.Attempts, s.Seconds, state)
}

// describeDrift says how a server watches the merge, and why it has gone back.
func describeDrift(w io.Writer, s *generations.Status) {
	for _, g := range s.Generations {
		for _, name := range slices.Sorted(maps.Keys(g.Why)) {
			fmt.Fprintf(w, "\nGeneration %d has the original of %s: %s\n", g.Generation, name, g.Why[name])
		}
	}
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(s.Watched)) {
		of := s.Watched[name]
		rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t%.3f\t%.3f\t%s", name, of.Generation, of.Samples, of.Score, of.Target, of.At.Format(time.DateTime)))
	}
	if rows != nil {
		fmt.Fprintln(w)
		cli.Table(w, append([]string{"WATCHED\tGENERATION\tSAMPLES\tSCORE\tTARGET\tAT"}, rows...)...)
	}
}

func newRevert() *cobra.Command {
	var models []string
	var to int
	command := &cobra.Command{
		Use:   "revert DIR",
		Short: "Go back to the networks as they were, or to an earlier generation",
		Long: `Makes another generation current, in one step: the networks as they were, which are generation 0, or that of --to. With --model it is
those models' files alone that come back, and what the others share stays: a new generation. Nothing is removed: --to goes forth again.`,
		Example: "  prefillonly merge revert merged\n  prefillonly merge revert merged --model person\n  prefillonly merge revert merged --to 2",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("to") && len(models) > 0 {
				return cli.UsageError("got --model and --to: want one of them")
			}
			dir, err := generations.OpenExisting(args[0])
			if err != nil {
				return err
			}
			revert := func() (*generations.Merge, error) { return dir.Revert(models) }
			if command.Flags().Changed("to") {
				revert = func() (*generations.Merge, error) { return dir.RevertTo(to) }
			}
			m, err := revert()
			if err = errors.Join(err, dir.Close()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "generation %d is current: %s MiB (%.1f %%) less\n", m.Generation, mebibytes(m.SharedBytes), m.SharedPercent)
			return err
		},
	}
	command.Flags().StringSliceVar(&models, "model", nil, "models whose files come back (default: all)")
	command.Flags().IntVar(&to, "to", 0, "generation to go to")
	return command
}
