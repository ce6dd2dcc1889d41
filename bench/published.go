package bench

import "github.com/prefillonly/prefillonly/scheduler/sim/presets"

// publishedMaxTokens is table 5.2 of the paper: the longest prompt by machine and method.
var publishedMaxTokens = map[string]map[presets.Method]int{
	"L4":   {presets.Paged: 24000, presets.Chunked: 46000, presets.Pipeline: 72000, presets.Tensor: 195000, presets.PrefillOnly: 130000},
	"A100": {presets.Paged: 11000, presets.Chunked: 17000, presets.Pipeline: 38000, presets.Tensor: 77000, presets.PrefillOnly: 87000},
	"H100": {presets.Paged: 15000, presets.Chunked: 25000, presets.Pipeline: 183000, presets.Tensor: 238000, presets.PrefillOnly: 97000},
}

// publishedRun is one run in the raw results of the PrefillOnly artifact (SOSP 2025): two H100 PCIe,
// Llama-3.3-70B-FP8. Rates and throughput are in requests a second, latencies in seconds; 0 where
// none is published. Rate 0 is all requests at once.
type publishedRun struct {
	rate, throughput, mean, p99 float64
}

// publishedPosts are the runs of post recommendation.
var publishedPosts = map[presets.Method][]publishedRun{
	presets.PrefillOnly:  {{3, 2.78, 3.6, 11.4}, {6, 5.45, 4.0, 12.1}, {12, 9.65, 6.5, 15.7}, {24, 11.83, 18.9, 71.8}, {36, 12.01, 25, 74}, {0, 11.72, 39, 81}},
	presets.Chunked:      {{3, 2.67, 6.5, 72}, {6, 4.14, 7.6, 85}, {12, 3.87, 35, 172}, {24, 2.23, 136, 398}, {36, 1.29, 321, 737}, {0, 0.61, 0, 0}},
	presets.Pipeline:     {{3, 2.75, 13, 36}, {6, 4.37, 28, 53}, {12, 3.82, 94, 171}, {24, 4.76, 87, 162}, {36, 5.30, 86, 155}, {0, 0.52, 0, 0}},
	presets.Tensor:       {{3, 2.78, 5.7, 19}, {6, 5.29, 7.9, 21}, {12, 6.95, 28, 52}, {24, 6.98, 52, 95}, {36, 6.99, 61, 109}, {0, 0.24, 0, 0}},
	presets.TensorNVLink: {{3, 2.79, 2.4, 10.6}, {6, 5.51, 2.9, 12.1}, {12, 9.69, 7.0, 13.7}, {24, 10.09, 27, 51}, {36, 10.10, 35, 65}, {0, 0.51, 0, 0}},
}

// publishedCredit is the throughput of credit verification at saturation.
var publishedCredit = map[presets.Method]float64{
	presets.PrefillOnly: 0.154, presets.Pipeline: 0.103, presets.Tensor: 0.069, presets.TensorNVLink: 0.121,
}

// publishedGains is what GEMEL's merges gain in accuracy, in percent, the medians of classes of workloads: figure 10, and the rows of
// its table 3 that need no other merges, of one workload of each class.
var publishedGains = map[string]map[string]float64{
	"100 ms, 30 fps, least": {"LP": 8.0, "MP": 13.5, "HP": 39.1},
	"100 ms, 30 fps, 50 %":  {"MP": 17.5},
	"100 ms, 30 fps, 75 %":  {"MP": 10.2},
	"100 ms, 10 fps, least": {"LP": 15.1, "MP": 8.0, "HP": 5.9},
	"400 ms, 30 fps, least": {"LP": 18.2, "MP": 14.7, "HP": 15.5},
}
