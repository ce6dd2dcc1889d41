package presets

import (
	"math"
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

// publishedCosts are tables 1 and 2 of the GEMEL paper (MB; ms): loads, and runs at batches of 1, 2 and 4.
// Those marked are not in the paper: they have its run time of 0.16 ms a convolution, the load rate of the nearest
// residual network by size, and its work area by size.
var publishedCosts = []struct {
	name          string
	weights, load float64
	with, run     [3]float64
}{
	{"yolo", 242, 49.5, [3]float64{518, 728, 1220}, [3]float64{17.0, 24.0, 39.9}},
	{"r152", 244, 73.25, [3]float64{648, 978, 1710}, [3]float64{24.81, 26.27, 26.7}},
	{"r50", 118, 27.1, [3]float64{346, 498, 838}, [3]float64{8.41, 8.5, 8.52}},
	{"vgg", 536, 72.2, [3]float64{738, 890, 1180}, [3]float64{2.1, 2.23, 2.4}},
	{"tiny-yolo", 42, 6.7, [3]float64{152, 180, 238}, [3]float64{3.0, 3.5, 5.2}},
	{"frCNN-r50", 732, 117.3, [3]float64{3700, 6960, 12470}, [3]float64{115.4, 210.1, 379.4}},
	{"inception", 120, 11.8, [3]float64{190, 228, 340}, [3]float64{9.1, 9.1, 9.1}},
	{"ssd-vgg", 106, 16.1, [3]float64{230, 328, 506}, [3]float64{16.5, 25.7, 44.6}},
	{"frCNN-r101", 808, 129.5, [3]float64{3776, 7036, 12546}, [3]float64{123.6, 218.3, 387.6}}, // assumed
	{"r101", 185, 51.0, [3]float64{505, 748, 1292}, [3]float64{16.6, 17.4, 17.6}},              // assumed
	{"r18", 52, 11.9, [3]float64{152, 219, 369}, [3]float64{3.2, 3.3, 3.3}},                    // assumed
	{"mnet", 25, 5.7, [3]float64{75, 108, 183}, [3]float64{9.9, 10.0, 10.1}},                   // assumed
	{"ssd-mnet", 12, 2.8, [3]float64{80, 125, 225}, [3]float64{15.7, 15.9, 16.1}},              // assumed
}

// architecturesByName returns the costs by name. A batch of 3 is between 2 and 4.
func architecturesByName() map[string]*architecture {
	const mega = 1e6
	byName := map[string]*architecture{}
	for _, p := range publishedCosts {
		a := &architecture{name: p.name, rate: p.weights * mega / p.load * 1e3, weights: int64(p.weights * mega)}
		for i, from := range [maxBatch][2]int{{0, 0}, {1, 1}, {1, 2}, {2, 2}} {
			a.run[i] = time.Duration(math.Round((p.run[from[0]] + p.run[from[1]]) / 2 * 1e6))
			a.area[i] = int64((p.with[from[0]]+p.with[from[1]])/2*mega) - a.weights
		}
		byName[a.name] = a
	}
	return byName
}

// Architectures are the names of all whose costs are known, in the order of the paper's tables.
func Architectures() (names []string) {
	for _, p := range publishedCosts {
		names = append(names, p.name)
	}
	return names
}
