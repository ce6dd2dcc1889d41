package merge

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/published"
)

func newPlan() *cobra.Command {
	var workload string
	var asJSON bool
	command := &cobra.Command{
		Use:   "plan NETWORK.onnx...",
		Short: "List the layers of networks that could have the same weights, and the bytes that would save",
		Long: `Groups the layers of ONNX networks that could have one copy of weights between them: of each network the k-th layer with
the same operation, sizes and type of weights. Biases stay each one's own. Groups that save most come first; all together are the
most that merging can save, whatever accuracy allows. Beside it stands what networks save that share nothing but their beginnings.

A published workload (GEMEL, NSDI 2023) takes the place of files: its architectures with biases, without normalisations.`,
		Example: "  prefillonly merge plan yolox_nano.onnx person.onnx\n  prefillonly merge plan --workload LP1 --json",
		RunE: func(command *cobra.Command, files []string) error {
			models, err := openModels(files, workload)
			if err != nil {
				return err
			}
			p := merging.NewPlan(models)
			var out strings.Builder
			if asJSON {
				encoder := json.NewEncoder(&out)
				encoder.SetIndent("", "  ")
				err = encoder.Encode(describe(p, workload))
			} else {
				writePlan(&out, p)
			}
			if err == nil {
				_, err = io.WriteString(command.OutOrStdout(), out.String())
			}
			return err
		},
	}
	command.Flags().StringVar(&workload, "workload", "", "published workload in place of files: "+strings.Join(published.Names(), ", "))
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cli.CompleteFlag(command, "workload", cobra.FixedCompletions(published.Names(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

func openModels(files []string, workload string) ([]merging.Model, error) {
	switch {
	case workload != "" && len(files) > 0:
		return nil, cli.UsageError("got --workload %s and files: want one of them", workload)
	case workload != "":
		models, err := published.Models(workload)
		if err != nil {
			return nil, cli.UsageError("%w", err)
		}
		return models, nil
	case len(files) < 2:
		return nil, cli.UsageError("want two networks or more, or --workload: got %d", len(files))
	}
	var models []merging.Model
	for _, file := range files {
		m, err := inspect.OpenLayers(file)
		if err != nil {
			return nil, err
		}
		models = append(models, m)
	}
	return models, nil
}

// plan is a merging.Plan as JSON.
type plan struct {
	Workload       string  `json:"workload,omitempty"`
	Models         []model `json:"models"`
	TotalBytes     int64   `json:"total_bytes"`
	SharedBytes    int64   `json:"shared_bytes"`
	OptimalPercent float64 `json:"optimal_percent"`
	StemBytes      int64   `json:"stem_bytes"`
	StemPercent    float64 `json:"stem_percent"`
	Groups         []group `json:"groups"`
}

type model struct {
	Name   string `json:"name"`
	Layers int    `json:"layers"`
	Bytes  int64  `json:"bytes"`
}

type group struct {
	Signature  string   `json:"signature"`
	Occurrence int      `json:"occurrence"` // from 1 on
	Bytes      int64    `json:"bytes"`      // of one copy
	SavedBytes int64    `json:"saved_bytes"`
	Members    []member `json:"members"`
}

type member struct {
	Model int    `json:"model"` // place among the models, from 0 on
	Layer string `json:"layer"`
}

func describe(p *merging.Plan, workload string) plan {
	out := plan{
		Workload: workload, TotalBytes: p.Total(), SharedBytes: p.Shared(), OptimalPercent: percent(p.Shared(), p.Total()),
		StemBytes: p.Stem(), StemPercent: percent(p.Stem(), p.Total()), Groups: []group{},
	}
	for _, m := range p.Models {
		out.Models = append(out.Models, model{m.Name, len(m.Layers), m.Bytes()})
	}
	for _, g := range p.Groups {
		d := group{Signature: g.Signature, Occurrence: g.Nth + 1, Bytes: g.Bytes, SavedBytes: g.Saved()}
		for _, m := range g.Members {
			d.Members = append(d.Members, member(m))
		}
		out.Groups = append(out.Groups, d)
	}
	return out
}

func percent(part, of int64) float64 { return 100 * float64(part) / float64(of) }

func mebibytes(bytes int64) string { return fmt.Sprintf("%.3f", float64(bytes)/(1<<20)) }

func writePlan(w io.Writer, p *merging.Plan) {
	rows := []string{"MODEL\tNAME\tLAYERS\tMIB"}
	for i, m := range p.Models {
		rows = append(rows, fmt.Sprintf("%d\t%s\t%d\t%s", i+1, m.Name, len(m.Layers), mebibytes(m.Bytes())))
	}
	rows = append(rows, "", "SAVES MIB\tONE COPY\tLAYER\tOCCURRENCE\tMODELS")
	for _, g := range p.Groups {
		var members []string
		for _, m := range g.Members {
			members = append(members, fmt.Sprint(m.Model+1))
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d\t%s", mebibytes(g.Saved()), mebibytes(g.Bytes), g.Signature, g.Nth+1, strings.Join(members, " ")))
	}
	cli.Table(w, rows...)
	fmt.Fprintf(w, "\nAt most %s of %s MiB can be saved, %.2f %%; by equal beginnings alone %s MiB, %.2f %%.\n",
		mebibytes(p.Shared()), mebibytes(p.Total()), percent(p.Shared(), p.Total()), mebibytes(p.Stem()), percent(p.Stem(), p.Total()))
}
