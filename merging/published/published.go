// Package published is the models of the GEMEL paper: the layers of their architectures, and the workloads of its appendix.
// It is apart because it is tables, which the simulator and the planner read.
package published

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/merging"
)

//go:embed layers.txt
var layersText string

// Layers are those of an architecture, in their order; a head has so many outputs as its model knows classes. The auxiliary head
// of training is left out, and biases are shared with the weights, as in the paper. Of an unknown one there are none.
func Layers(architecture string, classes int) (list []merging.Layer) {
	at := false
	lines := strings.Split(layersText, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if name, begins := strings.CutPrefix(line, "model "); begins {
			at = name == architecture
			continue
		}
		if !at || line == "" {
			continue
		}
		var count, times int
		if n, _ := fmt.Sscanf(line, "%d times %d", &count, &times); n == 2 {
			for range count {
				for _, of := range lines[i+1 : i+1+times] {
					list = append(list, newLayer(strings.TrimSpace(of), classes, len(list)))
				}
			}
			i += times
			continue
		}
		_, of, _ := strings.Cut(line, " ")
		fmt.Sscan(line, &count)
		for range count {
			list = append(list, newLayer(of, classes, len(list)))
		}
	}
	return list
}

// newLayer reads what tells a layer apart.
func newLayer(text string, classes, place int) merging.Layer {
	const bytesEach = 4
	l := merging.Layer{Name: fmt.Sprint(place)}
	var kind, kernel, stride, padding, dilation string
	var in, out, groups, bias int
	switch fmt.Sscan(text, &kind, &in); kind {
	case "head":
		l.Signature, l.Bytes = linear(in, classes)
	case "linear":
		fmt.Sscan(text, &kind, &in, &out)
		l.Signature, l.Bytes = linear(in, out)
	case "conv":
		fmt.Sscan(text, &kind, &in, &out, &kernel, &stride, &padding, &dilation, &groups, &bias)
		l.Signature = fmt.Sprintf("Conv [%d %d %s]", out, in/groups, kernel)
		l.Bytes = int64(in/groups*out*kernelArea(kernel) + bias*out)
		for _, a := range [][3]string{
			{"strides", stride, "1"}, {"pads", padding, "0"}, {"dilations", dilation, "1"}, {"group", fmt.Sprint(groups), "1"}, {"bias", fmt.Sprint(bias), "0"},
		} {
			if a[1] != a[2] {
				l.Signature += " " + a[0] + " " + a[1]
			}
		}
	default:
		panic("layers.txt: " + text)
	}
	l.Bytes *= bytesEach
	return l
}

func linear(in, out int) (signature string, parameters int64) {
	return fmt.Sprintf("Linear [%d %d]", out, in), int64(in+1) * int64(out)
}

// kernelArea is the elements of a kernel, "3" or "1x7".
func kernelArea(kernel string) int {
	a, b, both := strings.Cut(kernel, "x")
	if !both {
		b = a
	}
	var h, w int
	fmt.Sscan(a, &h)
	fmt.Sscan(b, &w)
	return h * w
}

// Workload is a set of models, each on frames of one camera.
type Workload struct {
	Name   string
	Models []Entry
}

// Entry is one model of a workload: its architecture, its camera, and how many classes it knows.
type Entry struct {
	Architecture, Feed string
	Classes            int
}

// workloadsText are the workloads, as far as they are legible in the appendix: architecture, feed and classes of each model.
const workloadsText = `
LP1 frCNN-r101 A1 1, r101 A1 4, r50 A2 4, r152 A3 2, mnet A4 3, yolo A5 1, tiny-yolo A1 1, ssd-vgg A6 1, ssd-vgg A1 1, ssd-mnet A5 1, ssd-mnet A4 1, ssd-mnet A6 1, inception A3 2
LP2 r152 B1 2, r101 B2 4, ssd-vgg B3 1
LP3 ssd-mnet B4 1, frCNN-r101 B3 1, r152 B1 2, r18 B3 5, inception B1 2
MP1 frCNN-r50 B1 1, frCNN-r50 B1 1, r50 B2 4, r50 B1 2, r152 B3 5, r152 B4 4, r18 B5 4, r18 B4 4, tiny-yolo B3 1, tiny-yolo B2 1, yolo B5 1, yolo B1 1, ssd-vgg B4 1, ssd-vgg B3 1, inception B3 5
MP2 r50 B3 5, r50 B1 2, r152 B3 5, r18 B5 4, ssd-mnet B1 1, ssd-mnet B2 1
HP2 frCNN-r101 B4 1, frCNN-r101 B5 1, frCNN-r101 B1 1, frCNN-r101 B2 1, frCNN-r50 B1 1, r50 B3 5, r18 B3 5, ssd-mnet B3 1, ssd-mnet B1 1, mnet B4 4, yolo B3 1, tiny-yolo B5 1, tiny-yolo B1 1, vgg B4 4, inception B2 4, inception B3 5
HP3 frCNN-r50 A3 1, frCNN-r50 A3 1, frCNN-r50 A1 1, frCNN-r50 A1 1, frCNN-r50 A5 1, frCNN-r50 A5 1, frCNN-r50 A2 1, frCNN-r50 A4 1, frCNN-r50 A2 1, frCNN-r101 A3 1, yolo A3 1, yolo A3 1, yolo A1 1, yolo A7 1, yolo A7 1, yolo A7 1, yolo A7 1, yolo A5 1, yolo A5 1, yolo A6 1, r152 A3 2, r152 A1 4, r152 A7 4, r152 A6 3, r152 A2 4, r152 A4 3, r50 A3 2, r50 A7 4, r50 A6 3, r50 A2 4, r50 A6 3, ssd-vgg A3 1, ssd-vgg A1 1, ssd-vgg A5 1, ssd-vgg A6 1, ssd-vgg A4 1, vgg A2 4, r18 A2 4
HP4 yolo B1 1, yolo B5 1, tiny-yolo B2 1, tiny-yolo B1 1, tiny-yolo B3 1, ssd-vgg B5 1, ssd-vgg B3 1, ssd-mnet B5 1, ssd-mnet B3 1, ssd-mnet B2 1, ssd-mnet B1 1, mnet B3 5, mnet B5 4, r152 B4 4, r152 B3 5, r152 B1 2
HP6 frCNN-r50 A3 1, frCNN-r50 A3 1, frCNN-r50 A1 1, frCNN-r50 A1 1, frCNN-r50 A5 1, frCNN-r50 A5 1, frCNN-r50 A2 1, frCNN-r50 A4 1, frCNN-r50 A2 1, frCNN-r101 A3 1, yolo A3 1, yolo A3 1, yolo A1 1, yolo A7 1, yolo A7 1, yolo A7 1, r101 A1 4, r101 A7 4, r101 A6 3, r101 A1 4, r152 A3 2, r152 A1 4, r152 A7 4, r152 A6 3, r152 A2 4, r152 A4 3, r50 A3 2, r50 A7 4, r50 A6 3, r50 A2 4, r50 A6 3, tiny-yolo A1 1, tiny-yolo A5 1, inception A3 2, inception A1 4, inception A7 4, inception A6 3, inception A4 3, vgg A2 4, r18 A2 4, r18 A2 4, r18 A2 4
`

// Workloads returns the nine workloads.
func Workloads() []Workload {
	var list []Workload
	for _, line := range strings.Split(strings.TrimSpace(workloadsText), "\n") {
		name, models, _ := strings.Cut(line, " ")
		w := Workload{Name: name}
		for _, m := range strings.Split(models, ", ") {
			var e Entry
			if _, err := fmt.Sscanf(m, "%s %s %d", &e.Architecture, &e.Feed, &e.Classes); err != nil {
				panic("workloads: " + m)
			}
			w.Models = append(w.Models, e)
		}
		list = append(list, w)
	}
	return list
}

// Names are those of the workloads.
func Names() (names []string) {
	for _, w := range Workloads() {
		names = append(names, w.Name)
	}
	return names
}

// Models are those of the workload of that name.
func Models(workload string) ([]merging.Model, error) {
	all := Workloads()
	i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == workload })
	if i < 0 {
		return nil, fmt.Errorf("unknown workload %q: want one of %s", workload, strings.Join(Names(), ", "))
	}
	var list []merging.Model
	for _, e := range all[i].Models {
		list = append(list, merging.Model{Name: e.Architecture + " on " + e.Feed, Layers: Layers(e.Architecture, e.Classes)})
	}
	return list, nil
}
