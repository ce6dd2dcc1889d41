package cuda

// Options are the settings of Open.
type Options struct {
	BlasLibrary string // path of cuBLASLt; empty: found by its usual names
}
