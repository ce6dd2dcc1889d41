package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/jpeg"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
)

// Prefix is where the streams are below.
const Prefix = "/v1/video/"

// Handler serves the streams below Prefix, and their figures at /metrics.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, h func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex() // a refusal before the body's end does not cut the proxy off that still sends
			if err := h(w, r); err != nil {
				writeError(w, err)
			}
		})
	}
	of := func(h func(st *stream, w http.ResponseWriter, r *http.Request) error) func(w http.ResponseWriter, r *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			st, err := s.findStream(r.PathValue("name"), ownerOf(r))
			if err != nil {
				return err
			}
			return h(st, w, r)
		}
	}
	handle("POST "+Prefix+"streams", s.handlePost)
	handle("GET "+Prefix+"streams", func(w http.ResponseWriter, r *http.Request) error {
		list := struct {
			Object string   `json:"object"`
			Data   []status `json:"data"`
		}{"list", []status{}}
		for _, st := range s.sortedStreams() {
			if ownerOf(r).ownsStream(st) {
				list.Data = append(list.Data, st.statusFor(ownerOf(r)))
			}
		}
		return writeJSON(w, http.StatusOK, list)
	})
	handle("GET "+Prefix+"streams/{name}", of(func(st *stream, w http.ResponseWriter, r *http.Request) error {
		return writeJSON(w, http.StatusOK, st.statusFor(ownerOf(r)))
	}))
	handle("DELETE "+Prefix+"streams/{name}", of(func(st *stream, w http.ResponseWriter, _ *http.Request) error {
		if err := s.removeStream(st); err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, map[string]any{"name": st.spec.Name, "deleted": true})
	}))
	handle("GET "+Prefix+"streams/{name}/results", of(serveResults))
	handle("GET "+Prefix+"streams/{name}/frame.jpg", of(servePicture))
	handle("GET "+Prefix+"streams/{name}/segments", of(serveSegments))
	handle("POST "+Prefix+"streams/{name}/camera", of(hostCamera))
	mux.Handle("GET /metrics", metrics.Handler(s.streamFigures, s.guards.listFigures))
	return mux
}

// streamFigures are those of the streams that who asks may see.
func (s *Server) streamFigures(r *http.Request) (list []metrics.Stream) {
	for _, st := range s.sortedStreams() {
		if ownerOf(r).ownsStream(st) {
			now := st.describeStatus()
			list = append(list, metrics.Stream{Name: now.Name, Model: st.inference.modelName(), State: now.State, Load: now.Load, Counted: st.figure.Now()})
		}
	}
	return list
}

// writeError answers with an error in OpenAI's form.
func writeError(w http.ResponseWriter, err error) {
	e := &api.Error{Message: err.Error(), Type: api.TypeServer, Code: "internal_error"}
	status := http.StatusInternalServerError
	var field *fieldError
	var failed *engine.Error
	var unfit *jobs.UnfitError
	switch {
	case errors.As(err, &unfit):
		status, e.Type, e.Code, e.Param = http.StatusBadRequest, api.TypeInvalidRequest, "invalid_value", "model"
	case errors.As(err, &field):
		status, e.Type, e.Code, e.Param = http.StatusBadRequest, api.TypeInvalidRequest, "invalid_value", field.field
	case errors.Is(err, errNoFrame):
		status, e.Type, e.Code = http.StatusNotFound, api.TypeNotFound, "no_frame"
	case errors.Is(err, errUnknown):
		status, e.Type, e.Code, e.Param = http.StatusNotFound, api.TypeNotFound, "stream_not_found", "name"
	case errors.Is(err, errModel):
		status, e.Type, e.Code, e.Param = http.StatusNotFound, api.TypeNotFound, "model_not_found", "model"
	case errors.Is(err, errExists):
		status, e.Type, e.Code, e.Param = http.StatusConflict, api.TypeInvalidRequest, "stream_exists", "name"
	case errors.As(err, &failed) && failed.Code == engine.CodeOverloaded:
		status, e.Type, e.Code = http.StatusTooManyRequests, api.TypeRateLimit, "overloaded"
	case errors.As(err, &failed) && failed.Code == engine.CodeUnavailable:
		status, e.Code = http.StatusServiceUnavailable, "unavailable"
	}
	body, _ := e.MarshalJSON() // strings alone
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // to one who may have left
}

func writeJSON(w http.ResponseWriter, status int, what any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // to one who may have left
	return nil
}

// maxSpec is how many bytes the JSON of a Spec may have.
const maxSpec = 64 << 10

func (s *Server) handlePost(w http.ResponseWriter, r *http.Request) error {
	var spec Spec
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSpec))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return newFieldError(jsonerror.FindField(kind, &spec), "%s", jsonerror.Explain(err, &spec))
		}
		return newFieldError("", "the body does not declare a stream: %s", jsonerror.Explain(err, &spec))
	}
	if err := s.addStream(r.Context(), spec, ownerOf(r)); err != nil {
		return err
	}
	st, err := s.findStream(spec.Name, ownerOf(r))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, st.describeStatus())
}

// hostCamera hosts a camera's session.
func hostCamera(st *stream, w http.ResponseWriter, r *http.Request) error {
	i, ok := st.intake.(*cameraIntake)
	if !ok {
		return newFieldError("name", "invalid stream %s: no camera's program sends its source; declare it with the source camera", st.spec.Name)
	}
	i.serveCamera(w, r)
	return nil
}

// quiet is after how long those who listen are told that the connection is alive.
const quiet = 15 * time.Second

// serveResults gives results as they come, as server-sent events or lines of JSON. Those behind a number come first, as far as they are kept.
func serveResults(st *stream, w http.ResponseWriter, r *http.Request) error {
	at := st.journal.Newest()
	for _, given := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")} {
		if given == "" {
			continue
		}
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			return newFieldError("after", "after, or Last-Event-ID, is %.40q; it is to be the number of a result", given)
		}
		at = min(n, at)
	}
	control := http.NewResponseController(w)
	events := !strings.Contains(r.Header.Get("Accept"), "json")
	kind, beat := "application/x-ndjson", "\n"
	if events {
		kind, beat = "text/event-stream", ": alive\n\n"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		lines, first, changed, over := st.journal.After(at)
		for i, line := range lines {
			_ = control.SetWriteDeadline(time.Now().Add(takeTimeout)) // writers of tests have none
			var err error
			if events {
				_, err = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", first+uint64(i), line)
			} else {
				_, err = fmt.Fprintf(w, "%s\n", line)
			}
			if err != nil {
				return nil // the client has left
			}
		}
		at = first + uint64(len(lines)) - 1
		_ = control.SetWriteDeadline(time.Now().Add(takeTimeout + quiet)) // also of what is said when it is quiet
		if control.Flush() != nil {
			return nil
		}
		if over {
			if events {
				_, _ = fmt.Fprint(w, "event: end\ndata: {}\n\n") // to one who may have left
			}
			return nil
		}
		timer.Reset(quiet)
		select {
		case <-changed:
		case <-timer.C:
			if _, err := w.Write([]byte(beat)); err != nil {
				return nil
			}
		case <-r.Context().Done():
			return nil
		}
	}
}

// serveSegments gives what became of the last segments of a camera, behind a number.
func serveSegments(st *stream, w http.ResponseWriter, r *http.Request) error {
	after := -1
	if given := r.URL.Query().Get("after"); given != "" {
		var err error
		if after, err = strconv.Atoi(given); err != nil || after < 0 {
			return newFieldError("after", "after is %.40q; it is to be the number of a segment", given)
		}
	}
	segments := []Segment{}
	if i, ok := st.intake.(*cameraIntake); ok {
		segments = append(segments, i.history.after(method.Segment(after))...)
	}
	return writeJSON(w, http.StatusOK, struct {
		Object string    `json:"object"`
		Data   []Segment `json:"data"`
	}{"list", segments})
}

// maxShown is the width in pixels of a frame that is shown.
const maxShown = 960

// servePicture is the frame that was seen last.
func servePicture(st *stream, w http.ResponseWriter, r *http.Request) error {
	seen := st.inference.last.Load()
	if seen == nil {
		return fmt.Errorf("%w that was seen of %s yet", errNoFrame, st.spec.Name)
	}
	f := seen.frame
	_, err := st.inference.maker.Turn(r.Context(), scalePace*time.Duration(2*f.Width*f.Height), func(scaler *ffmpeg.Scaler) (err error) {
		if f.Width > maxShown {
			f, err = scaler.Scale(f, maxShown, max(2, f.Height*maxShown/f.Width/2*2))
		}
		return err
	})
	if err != nil {
		return err
	}
	return writePicture(w, f, seen)
}

func writePicture(w http.ResponseWriter, f *media.Frame, seen *shot) error {
	h := w.Header()
	h.Set("Content-Type", "image/jpeg")
	h.Set("Cache-Control", "no-store")
	h.Set("Prefillonly-Segment", strconv.Itoa(int(seen.segment)))
	h.Set("Prefillonly-Frame", strconv.Itoa(seen.number))
	_ = jpeg.Encode(w, f.RGBA(), &jpeg.Options{Quality: 80}) // to one who may have left
	return nil
}
