package model

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// network is an ONNX file, and the decoders that suit it.
type network struct {
	*inspect.Network
	Decoders []string `json:"decoders,omitempty"` // of videoext/vision
}

func openNetwork(file string) (*network, error) {
	n, err := inspect.OpenNetwork(file)
	if err != nil {
		return nil, err
	}
	return &network{n, outputDecoders(n)}, nil
}

// outputDecoders are those that read the outputs of a network that takes pictures.
func outputDecoders(n *inspect.Network) []string {
	if n.Refused != "" || len(n.Inputs) != 1 || len(n.Inputs[0].Shape) != 4 {
		return nil
	}
	var in vision.Size
	switch s := n.Inputs[0].Shape; {
	case s[1] == channels:
		in = vision.Size{Height: max(s[2], 0), Width: max(s[3], 0)}
	case s[3] == channels:
		in = vision.Size{Height: max(s[1], 0), Width: max(s[2], 0)}
	default:
		return nil
	}
	outputs := modellist.Outputs(n)
	if slices.ContainsFunc(outputs, func(o vision.Output) bool { return o.Shape == nil }) {
		return nil // it could be any
	}
	return vision.Suggest(outputs, in)
}

// channels are those of a picture.
const channels = 3

func writeNetwork(w io.Writer, n *network) {
	by := ""
	if n.Producer != "" {
		by = " by " + n.Producer
	}
	fmt.Fprintf(w, "%s\nONNX opset %d%s, %s\n\n", n.Path, n.Opset, by, formatStored(len(n.Tensors), n.Files, n.Bytes, n.Types))
	rows := []string{"INPUT\tTYPE\tSHAPE"}
	for _, p := range n.Inputs {
		rows = append(rows, formatPort(p))
	}
	rows = append(rows, "", "OUTPUT\tTYPE\tSHAPE")
	for _, p := range n.Outputs {
		rows = append(rows, formatPort(p))
	}
	rows = append(rows, "", "OPERATION\tNODES")
	for _, o := range n.Operations {
		row := fmt.Sprintf("%s\t%d", o.Name, o.Nodes)
		if !o.Known {
			row += "\tunknown"
		}
		rows = append(rows, row)
	}
	cli.Table(w, rows...)
	fmt.Fprintln(w)
	switch {
	case n.Refused != "":
		fmt.Fprintf(w, "It cannot be served: %s\n", n.Refused)
		return
	case n.FLOP > 0:
		fmt.Fprintf(w, "A frame takes %.3g GFLOP.\n", float64(n.FLOP)/1e9)
	default:
		fmt.Fprintln(w, "What a frame takes depends on sizes that the file leaves open.")
	}
	if n.OneFrame != "" {
		fmt.Fprintf(w, "It takes one frame at a time: %s\n", n.OneFrame)
	}
	if len(n.Decoders) > 0 {
		fmt.Fprintf(w, "Its outputs suit the decoder %s.\n", strings.Join(n.Decoders, " or "))
	}
}

// formatPort is an input or output in a row of a table; dimensions of any size by their names, or as a question mark.
func formatPort(p inspect.Port) string {
	if p.Shape == nil {
		return fmt.Sprintf("%s\t%s\t?", p.Name, p.Type)
	}
	shape := make([]string, len(p.Shape))
	for i, d := range p.Shape {
		switch {
		case d >= 0:
			shape[i] = fmt.Sprint(d)
		case i < len(p.Dims) && p.Dims[i] != "":
			shape[i] = p.Dims[i]
		default:
			shape[i] = "?"
		}
	}
	return fmt.Sprintf("%s\t%s\t[%s]", p.Name, p.Type, strings.Join(shape, " "))
}
