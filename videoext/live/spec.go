package live

import (
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/source"
)

// Spec declares a stream.
type Spec struct {
	Name     string  `json:"name"`
	Model    string  `json:"model,omitempty"`
	Source   string  `json:"source"`           // a file, an rtsp:// or rtsps:// URL, or camera
	Method   string  `json:"method,omitempty"` // of a camera: a specification of videoext/methods
	Adapt    string  `json:"adapt,omitempty"`  // of a camera: a short form of Method, which takes its place
	Rate     float64 `json:"rate,omitempty"`   // frames a second at most; 0: the source's
	Deadline float64 `json:"deadline_ms,omitempty"`
	Classes  []int   `json:"classes,omitempty"` // that are looked for; none: all
	Score    float32 `json:"score,omitempty"`   // least of what is found
	Loop     bool    `json:"loop,omitempty"`    // a file begins again at its end
}

// camera is the Source of streams whose frames a camera's program sends.
const camera = "camera"

const (
	defaultMethod = "dds"
	adaptMethod   = "oneadapt:preset=repo,share=0.1" // what Adapt stands for
	maxDeadline   = 60_000.0                         // ms
	maxClasses    = 1000
)

// fieldError is what is wrong with a field of a Spec.
type fieldError struct{ field, message string }

func (e *fieldError) Error() string { return e.message }

func newFieldError(field, format string, args ...any) error {
	return &fieldError{field, fmt.Sprintf(format, args...)}
}

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// check says what is wrong with a Spec, and fills in what is left out.
func (s *Spec) check() error {
	switch {
	case !names.MatchString(s.Name):
		return newFieldError("name", "name is %.80q; 1 to 64 letters, digits, dots, dashes and underscores are right, of which the first is a letter or digit", s.Name)
	case s.Source == "":
		return newFieldError("source", "source is missing: a file, an rtsp:// URL, or camera")
	case !(s.Rate >= 0 && s.Rate <= source.MaxRate):
		return newFieldError("rate", "rate is %v frames a second; 0 to %v are right", s.Rate, source.MaxRate)
	case !(s.Deadline >= 0 && s.Deadline <= maxDeadline):
		return newFieldError("deadline_ms", "deadline_ms is %v; 0 to %v are right", s.Deadline, maxDeadline)
	case !(s.Score >= 0 && s.Score <= 1):
		return newFieldError("score", "score is %v; 0 to 1 is right", s.Score)
	case len(s.Classes) > maxClasses:
		return newFieldError("classes", "classes has %d numbers, the limit is %d", len(s.Classes), maxClasses)
	case s.Method != "" && s.Source != camera:
		return newFieldError("method", "method is %.80q; only a camera's program sends frames in a way of its own", s.Method)
	case s.Adapt != "" && s.Method != "":
		return newFieldError("adapt", "adapt is %.80q and method %.80q; one of the two says how a camera streams", s.Adapt, s.Method)
	case s.Adapt != "" && s.Adapt != "oneadapt":
		return newFieldError("adapt", "adapt is %.80q; oneadapt is right", s.Adapt)
	case s.Adapt != "" && s.Source != camera:
		return newFieldError("adapt", "adapt is %.80q; only a camera's program has knobs to set", s.Adapt)
	case s.Loop && (s.Source == camera || s.isRemote()):
		return newFieldError("loop", "loop is for files")
	}
	if len(s.Classes) == 0 {
		s.Classes = nil
	}
	if s.isRemote() {
		if _, err := ffmpeg.ParseAddress(s.Source); err != nil {
			return newFieldError("source", "source is a URL: %v", err)
		}
	}
	if s.Adapt != "" {
		s.Method, s.Adapt = adaptMethod, ""
	}
	if s.Source == camera {
		if s.Method == "" {
			s.Method = defaultMethod
		}
		if _, err := s.newMethod(); err != nil {
			return newFieldError("method", "method: %v", err)
		}
	}
	return nil
}

func (s *Spec) isRemote() bool { return ffmpeg.IsRTSP(s.Source) }

func (s *Spec) frameDeadline() time.Duration {
	return time.Duration(s.Deadline * float64(time.Millisecond))
}

func (s *Spec) newMethod() (method.Method, error) { return methods.New(s.Method, methods.Learned{}) }

// newServer makes a method's server side, and newPlain that of frames of a source that the server reads itself: each is a segment.
func (s *Spec) newServer() method.Server {
	m, err := s.newMethod()
	if err != nil {
		return s.newPlain() // it was checked
	}
	_, server := m.New()
	return server
}

func (s *Spec) newPlain() method.Server {
	return &method.OneStream{How: method.Plain{}, Blank: true}
}

// sourcePath is the path of a source below the directory of files; links are followed, and lead nowhere else.
func (s *Spec) sourcePath(dir string) (string, error) {
	if dir == "" {
		return "", newFieldError("source", "source is a file, and the server reads none; its operator names a directory with --video-files")
	}
	if !filepath.IsLocal(s.Source) {
		return "", newFieldError("source", "source is %.200q; a file is named by its path below the directory of --video-files", s.Source)
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(root, s.Source))
	if err != nil {
		return "", newFieldError("source", "source: there is no file %.200q below the directory of --video-files", s.Source)
	}
	if below, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(below) {
		return "", newFieldError("source", "source: %.200q is not below the directory of --video-files", s.Source)
	}
	return path, nil
}
