package cudnn

// Source opens cuDNN when it is first asked for: it takes seconds and hundreds of megabytes of host memory, and
// only some models use it.
type Source struct {
	options Options
	library *Library
	err     error
}

// NewSource is the library of these options.
func NewSource(o Options) *Source { return &Source{options: o} }

// Library opens cuDNN, or says what hindered that the first time.
func (s *Source) Library() (*Library, error) {
	if s.library == nil && s.err == nil {
		s.library, s.err = Open(s.options)
	}
	return s.library, s.err
}

// Close closes the library if it was opened, after all that was made of it.
func (s *Source) Close() {
	if s.library != nil {
		s.library.Close()
		s.library = nil
	}
}
