// Package model holds the subcommands of `prefillonly model`: what is in checkpoints and networks, downloads of those, and quantised copies.
package model

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/engine/weights/catalog"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/modellist"
)

// New makes `prefillonly model`.
func New() *cobra.Command {
	show := &cobra.Command{
		Use:   "show MODEL",
		Short: "List a checkpoint's tensors and chunks, or a network's inputs, outputs and operations",
		Long: `Reads the headers of a checkpoint, or of a GGUF file as the checkpoint that it is served as: tensors with their types, shapes and bytes, those of several layers in
one line, and the chunks that are loaded and dropped together, with what they are expected to take on a
device that computes in bfloat16; the head counts the rotary angles of the longest sequence, too.

Of a network, which is an ONNX file, it lists inputs, outputs and operations, says which of these are not known
here, counts the bytes of tensors and the floating-point operations of a frame, and names the decoders that its
outputs suit, if it takes pictures.`,
		Example: "  prefillonly model show ./Qwen2.5-0.5B\n  prefillonly model show Qwen/Qwen2.5-0.5B --json\n  prefillonly model show Qwen2.5-0.5B-Q4_K_M.gguf\n  prefillonly model show yolox_nano.onnx",
		Args:    cobra.ExactArgs(1),
	}
	diff := &cobra.Command{
		Use:   "diff MODEL MODEL",
		Short: "Compare two checkpoints: what they share, and the memory of both",
		Long: `Compares the tensors of two checkpoints by their content. Equal ones are in memory once when both models
are served by one process, so a fine-tune costs no more than what it changed. Tensors that begin alike are
hashed, once for as long as the files stay what they are.`,
		Example: "  prefillonly model diff ./Qwen2.5-0.5B ./my-fine-tune",
		Args:    cobra.ExactArgs(2),

		ValidArgsFunction: cli.Directories,
	}
	for c, text := range map[*cobra.Command]func(*cobra.Command, []string) (any, func(io.Writer), error){show: showModel, diff: diffModels} {
		asJSON := c.Flags().Bool("json", false, "print JSON, every tensor by itself")
		c.RunE = func(command *cobra.Command, args []string) error {
			value, write, err := text(command, args)
			if err != nil {
				return err
			}
			var out strings.Builder
			if *asJSON {
				encoder := json.NewEncoder(&out)
				encoder.SetIndent("", "  ")
				err = encoder.Encode(value)
			} else {
				write(&out)
			}
			if err == nil {
				_, err = io.WriteString(command.OutOrStdout(), out.String())
			}
			return err
		}
	}
	return cli.Group(&cobra.Command{Use: "model", Short: "Download and quantize models, and look into their files"}, newDownload(), newQuantize(), show, diff)
}

// openCheckpoint reads the headers of a checkpoint by directory or name.
func openCheckpoint(name string) (*inspect.Checkpoint, error) {
	if _, network := dnn.File(name); network {
		return nil, modelError(fmt.Errorf("%s is a network, and only checkpoints are compared", name))
	}
	dir, _, err := modellist.Find(name, "", modellist.Cached)
	if err != nil {
		return nil, modelError(err)
	}
	c, err := inspect.OpenCheckpoint(dir)
	return c, modelError(err)
}

// modelError is an error about a model's files, with the exit code of such.
func modelError(err error) error {
	if err == nil {
		return nil
	}
	return cli.Exit(cli.ExitConfig, err)
}

func showModel(_ *cobra.Command, args []string) (any, func(io.Writer), error) {
	if file, network := dnn.File(args[0]); network {
		n, err := openNetwork(file)
		return n, func(w io.Writer) { writeNetwork(w, n) }, modelError(err)
	}
	c, err := openCheckpoint(args[0])
	return c, func(w io.Writer) { writeCheckpoint(w, c) }, err
}

func diffModels(command *cobra.Command, args []string) (any, func(io.Writer), error) {
	var models [2]*inspect.Checkpoint
	for i := range models {
		var err error
		if models[i], err = openCheckpoint(args[i]); err != nil {
			return nil, nil, err
		}
	}
	cache, err := cli.CacheDir()
	if err != nil {
		cache = "" // hashes are not kept
	}
	c, err := inspect.Compare(command.Context(), models[0], models[1], catalog.New(cache), newHashProgress())
	if err != nil {
		return nil, nil, modelError(err)
	}
	return c, func(w io.Writer) { writeComparison(w, c) }, nil
}

// newHashProgress shows on a terminal how much is read.
func newHashProgress() func(done, total int64) {
	if bar := cli.ProgressBar("hashing"); bar != nil {
		return bar
	}
	return func(int64, int64) {}
}

// formatStored says how many tensors there are, in how many files, and of which types.
func formatStored(tensors, files int, bytes int64, byType map[string]int64) string {
	in := "1 file"
	if files != 1 {
		in = fmt.Sprintf("%d files", files)
	}
	var types []string
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		types = append(types, name+" "+formatBytes(byType[name]))
	}
	return fmt.Sprintf("%d tensors in %s, %s: %s", tensors, in, formatBytes(bytes), strings.Join(types, ", "))
}

func writeCheckpoint(w io.Writer, m *inspect.Checkpoint) {
	fmt.Fprintf(w, "%s\n%s, %s\n\n", m.Path, m.Architecture, formatStored(len(m.Tensors), m.Files, m.Bytes, m.Types))
	rows := []string{"TENSORS\tTYPE\tSHAPE\tNUMBER\tBYTES"}
	for _, a := range inspect.Group(m.Tensors) {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%v\t%d\t%s", a.Names, a.Type, a.Shape, a.Count, formatBytes(a.Bytes)))
	}
	cli.Table(w, rows...)
	if m.Refused != "" {
		fmt.Fprintf(w, "\nIt cannot be served: %s\n", m.Refused)
		return
	}
	fmt.Fprintln(w)
	rows = []string{"CHUNK\tTENSORS\tBYTES\tON A DEVICE"}
	for from := 0; from < len(m.Chunks); {
		c, to := m.Chunks[from], from+1
		for to < len(m.Chunks) && chunksAlike(m.Chunks[to], c) {
			to++
		}
		name, each := c.Name, ""
		if to > from+1 {
			name, each = c.Name+" to "+m.Chunks[to-1].Name, " each"
		}
		rows = append(rows, fmt.Sprintf("%s\t%d%s\t%s%s\t%s%s", name, c.Tensors, each, formatBytes(c.Bytes), each, formatBytes(c.DeviceBytes), each))
		from = to
	}
	cli.Table(w, append(rows, fmt.Sprintf("all\t%d\t%s\t%s", len(m.Tensors), formatBytes(m.Bytes), formatBytes(m.DeviceBytes)))...)
}

// chunksAlike says whether two chunks differ in their names alone.
func chunksAlike(a, b inspect.Chunk) bool {
	a.Name = b.Name
	return a == b
}

func writeComparison(w io.Writer, c *inspect.Comparison) {
	rows := []string{"\tA\tB", fmt.Sprintf("tensors\t%d\t%d", c.A.Tensors, c.B.Tensors), fmt.Sprintf("bytes\t%s\t%s", formatBytes(c.A.Bytes), formatBytes(c.B.Bytes)),
		fmt.Sprintf("shared tensors\t%d\t%d", c.A.SharedTensors, c.B.SharedTensors),
		fmt.Sprintf("shared bytes\t%s\t%s", formatBytes(c.A.SharedBytes), formatBytes(c.B.SharedBytes)),
		fmt.Sprintf("share\t%.1f %%\t%.1f %%", 100*c.A.Share, 100*c.B.Share)}
	if d := c.Device; d != nil {
		rows = append(rows, fmt.Sprintf("on a device\t%s\t%s", formatBytes(d.A), formatBytes(d.B)))
	}
	fmt.Fprintf(w, "A  %s\nB  %s\n\n", c.A.Path, c.B.Path)
	cli.Table(w, rows...)
	if d := c.Device; d != nil {
		fmt.Fprintf(w, "\nTogether they take %s, %.2f times what A takes; loading B beside A loads %s.\n", formatBytes(d.Together), float64(d.Together)/float64(d.A), formatBytes(d.Load))
		fmt.Fprintf(w, "%d of B's %d chunks are A's", d.Shared, d.Chunks)
		if len(d.Differ) > 0 {
			fmt.Fprintf(w, ", all but %s", strings.Join(d.Differ, ", "))
		}
		fmt.Fprintln(w, ".")
	}
	if len(c.Differences) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows = []string{"DIFFERENT\tTYPE\tSHAPE\tNUMBER\tBYTES\tWHERE"}
	for _, where := range []struct{ in, why, text string }{
		{"both", "content", "other content"}, {"a", "content", "A's content is not in B"}, {"b", "content", "B's content is not in A"},
		{"a", "form", "A, another type or shape in B"}, {"b", "form", "B, another type or shape in A"},
		{"a", "missing", "A alone"}, {"b", "missing", "B alone"},
	} {
		var tensors []inspect.Tensor
		for _, d := range c.Differences {
			if d.In == where.in && d.Why == where.why {
				tensors = append(tensors, d.Tensor)
			}
		}
		for _, a := range inspect.Group(tensors) {
			rows = append(rows, fmt.Sprintf("%s\t%s\t%v\t%d\t%s\t%s", a.Names, a.Type, a.Shape, a.Count, formatBytes(a.Bytes), where.text))
		}
	}
	cli.Table(w, rows...)
}

// formatBytes is a number of bytes in the largest unit that leaves a digit before the point.
func formatBytes(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= unit.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.bytes), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
