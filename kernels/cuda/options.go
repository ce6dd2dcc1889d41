package cuda

// Options are the settings of Open.
type Options struct {
	BlasLibrary  string // path of cuBLASLt; empty: found by its usual names
	CudnnLibrary string // path of cuDNN; empty: found by its usual name
	// AttentionBackend is cudnn, flashinfer, or auto (empty): cuDNN if it is there and covers the shape.
	AttentionBackend string
	// PlanDir keeps compiled plans of cuDNN from one run to the next; empty: none are kept.
	PlanDir string
	// Note, if any, is told what the log should say.
	Note func(string)
}
