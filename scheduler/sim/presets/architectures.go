package presets

import (
	"bufio"
	_ "embed"
	"fmt"
	"math"
	"strings"
	"time"
)

// architecture is what a model costs, at batches of 1 to 4 frames.
type architecture struct {
	name    string
	rate    float64 // bytes a second at which it is loaded
	weights int64   // bytes
	run     [maxBatch]time.Duration
	area    [maxBatch]int64 // bytes of a pass beside the weights
}

// maxBatch is the largest batch that costs are known of.
const maxBatch = 4

// published are tables 1 and 2 of the GEMEL paper (MB; ms): loads, and runs at batches of 1, 2 and 4.
// Those marked are not in the paper: they have its run time of 0.16 ms a convolution, the load rate of the nearest
// residual network by size, and its work area by size.
var published = []struct {
	name          string
	weights, load float64
	with, run     [3]float64
}{
	{"yolo", 242, 49.5, [3]float64{518, 728, 1220}, [3]float64{17.0, 24.0, 39.9}},
	{"r152", 244, 73.25, [3]float64{648, 978, 1710}, [3]float64{24.81, 26.27, 26.7}},
	{"r50", 118, 27.1, [3]float64{346, 498, 838}, [3]float64{8.41, 8.5, 8.52}},
	{"vgg", 536, 72.2, [3]float64{738, 890, 1180}, [3]float64{2.1, 2.23, 2.4}},
	{"tiny-yolo", 42, 6.7, [3]float64{152, 180, 238}, [3]float64{3.0, 3.5, 5.2}},
	{"inception", 120, 11.8, [3]float64{190, 228, 340}, [3]float64{9.1, 9.1, 9.1}},
	{"ssd-vgg", 106, 16.1, [3]float64{230, 328, 506}, [3]float64{16.5, 25.7, 44.6}},
	{"r101", 185, 51.0, [3]float64{505, 748, 1292}, [3]float64{16.6, 17.4, 17.6}}, // assumed
	{"r18", 52, 11.9, [3]float64{152, 219, 369}, [3]float64{3.2, 3.3, 3.3}},       // assumed
	{"mnet", 25, 5.7, [3]float64{75, 108, 183}, [3]float64{9.9, 10.0, 10.1}},      // assumed
	{"ssd-mnet", 12, 2.8, [3]float64{80, 125, 225}, [3]float64{15.7, 15.9, 16.1}}, // assumed
}

// architecturesByName returns the costs by name. A batch of 3 is between 2 and 4.
func architecturesByName() map[string]*architecture {
	const mega = 1e6
	byName := map[string]*architecture{}
	for _, p := range published {
		a := &architecture{name: p.name, rate: p.weights * mega / p.load * 1e3, weights: int64(p.weights * mega)}
		for i, from := range [maxBatch][2]int{{0, 0}, {1, 1}, {1, 2}, {2, 2}} {
			a.run[i] = time.Duration(math.Round((p.run[from[0]] + p.run[from[1]]) / 2 * 1e6))
			a.area[i] = int64((p.with[from[0]]+p.with[from[1]])/2*mega) - a.weights
		}
		byName[a.name] = a
	}
	return byName
}

// layer is one kind of layer of an architecture, and how often it is there.
type layer struct {
	signature string // what a layer must have in common with another to share its weights
	count     int
	bytes     int64 // of one
}

//go:embed layers.txt
var layersText string

// readLayers reads layers.txt; a head has so many outputs as its model knows classes.
func readLayers(name string, classes int) []layer {
	var list []layer
	at := ""
	lines := bufio.NewScanner(strings.NewReader(layersText))
	for lines.Scan() {
		line := lines.Text()
		if of, ok := strings.CutPrefix(line, "model "); ok {
			at = of
			continue
		}
		if at == name && !strings.HasPrefix(line, "#") {
			list = append(list, parseLayer(line, classes))
		}
	}
	return list
}

func parseLayer(line string, classes int) layer {
	const bytesEach = 4
	l := layer{}
	var kind string
	var in, out, parameters int
	_, rest, _ := strings.Cut(line, " ")
	if n, _ := fmt.Sscanf(line, "%d %s %d", &l.count, &kind, &in); n != 3 {
		panic("layers.txt: " + line)
	}
	l.signature = rest
	switch kind {
	case "head":
		l.signature = fmt.Sprintf("linear %d %d", in, classes)
		parameters = (in + 1) * classes
	case "linear":
		fmt.Sscanf(rest, "linear %d %d", &in, &out)
		parameters = (in + 1) * out
	case "conv":
		var kernel, stride, padding, dilation string
		var groups, bias int
		fmt.Sscanf(rest, "conv %d %d %s %s %s %s %d %d", &in, &out, &kernel, &stride, &padding, &dilation, &groups, &bias)
		parameters = in/groups*out*kernelArea(kernel) + bias*out
	}
	l.bytes = int64(parameters * bytesEach)
	return l
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
