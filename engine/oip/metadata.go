package oip

// Live and Ready are the answers of the health paths.
type (
	Live struct {
		Live bool `json:"live"`
	}
	Ready struct {
		Name  string `json:"name,omitempty"` // of a model; empty: the server is meant
		Ready bool   `json:"ready"`
	}
)

// Server is the server's metadata.
type Server struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

// Model is a model's metadata.
type Model struct {
	Name     string       `json:"name"`
	Versions []string     `json:"versions"`
	Platform string       `json:"platform"`
	Inputs   []TensorSpec `json:"inputs"`
	Outputs  []TensorSpec `json:"outputs"`
}

// TensorSpec is an input or output of a model; dimensions that may be any are -1.
type TensorSpec struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"`
}

// Config is the part of a model's configuration, in Triton's words, that clients read.
type Config struct {
	Name         string       `json:"name"`
	Platform     string       `json:"platform"`
	Backend      string       `json:"backend"`
	MaxBatchSize int          `json:"max_batch_size"` // above 0: the first dimension is a batch, which Dims leave out
	Input        []ConfigSpec `json:"input"`
	Output       []ConfigSpec `json:"output"`
}

// ConfigSpec is an input or output in a Config.
type ConfigSpec struct {
	Name     string `json:"name"`
	DataType string `json:"data_type"`        // TYPE_FP32, ...
	Format   string `json:"format,omitempty"` // FORMAT_NCHW or FORMAT_NHWC of an input that takes pictures, else FORMAT_NONE; none of outputs
	Dims     []int  `json:"dims"`
}

// Indexed is a model in the repository's index.
type Indexed struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"` // READY, LOADING, UNLOADING or UNAVAILABLE
	Reason  string `json:"reason"`
}

// Statistics are what models have done.
type Statistics struct {
	Models []ModelStatistics `json:"model_stats"`
}

// ModelStatistics are what one model has done.
type ModelStatistics struct {
	Name           string         `json:"name"`
	Version        string         `json:"version"`
	LastInference  int64          `json:"last_inference"`  // milliseconds of Unix time; 0: none
	InferenceCount uint64         `json:"inference_count"` // frames
	ExecutionCount uint64         `json:"execution_count"` // passes
	Inference      InferenceStats `json:"inference_stats"`
	Batch          []struct{}     `json:"batch_stats"` // not counted
}

// InferenceStats are durations of requests.
type InferenceStats struct {
	Success       Duration `json:"success"`
	Fail          Duration `json:"fail"`
	Queue         Duration `json:"queue"`
	ComputeInput  Duration `json:"compute_input"`
	ComputeInfer  Duration `json:"compute_infer"`
	ComputeOutput Duration `json:"compute_output"`
}

// Duration is how often something was, and how long it took all together.
type Duration struct {
	Count       uint64 `json:"count"`
	Nanoseconds uint64 `json:"ns"`
}

// Error is the body of a refusal.
type Error struct {
	Message string `json:"error"`
}

// LoadRequest is the body of a request to load or unload a model. What is not empty in it but is not served is refused
// by name.
type LoadRequest struct {
	Parameters map[string]any `json:"parameters"`
}
