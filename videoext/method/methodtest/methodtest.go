// Package methodtest has the suite that every way to stream passes.
package methodtest

import (
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// mostHeld is how many segments' frames a method may have a camera keep.
const mostHeld = 8

// worlds are what a method has to live with.
var worlds = map[string]faults{
	"all is well":             {},
	"nothing to see":          {sceneEmpty: true},
	"answers are lost":        {answerLost: 0.5},
	"no answer ever":          {answerLost: 1},
	"what is sent is corrupt": {failed: 0.3},
	"the link stops":          {linkDown: true},
	"the server is slow":      {serverBehind: true},
	"all of it":               {answerLost: 0.3, failed: 0.2, linkDown: true, serverBehind: true},
}

// Run holds a method to the contract: each frame gets final results once, whatever is lost; only frames that are there are asked for; the
// same messages give the same actions; and neither frames nor state pile up.
func Run(t *testing.T, m method.Method) {
	t.Helper()
	if m.Name == "" || m.Setting == "" || m.Frames < 1 || m.New == nil {
		t.Fatalf("a method needs a name, a setting, frames of a segment and New: %+v", m)
	}
	for name, f := range worlds {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				w := runWorld(m, 30, seed, f)
				w.checkAction(t, seed)
				checkReplay(t, m, w)
			}
		})
	}
	t.Run("unknown segments", func(t *testing.T) { checkStrangers(t, m) })
	t.Run("memory", func(t *testing.T) { checkMemory(t, m) })
}

// checkAction holds what was done to the contract.
func (w *world) checkAction(t *testing.T, seed uint64) {
	t.Helper()
	for _, p := range w.problems {
		t.Errorf("seed %d: %s", seed, p)
	}
	for i, s := range w.segments {
		if s.final != 1 {
			t.Errorf("seed %d: segment %d has %d final results", seed, i, s.final)
		}
		if !s.sent[method.A] {
			t.Errorf("seed %d: stream A of segment %d was neither sent nor skipped", seed, i)
		}
	}
	if w.mostHeld > mostHeld {
		t.Errorf("seed %d: %d segments' frames are kept at one time; %d are allowed", seed, w.mostHeld, mostHeld)
	}
}

// checkReplay holds that a new camera and server do the same when they are told the same.
func checkReplay(t *testing.T, m method.Method, w *world) {
	t.Helper()
	camera, server := m.New()
	for _, s := range w.transcript {
		var did any
		if _, fromCamera := s.did.([]method.CameraAction); fromCamera {
			did = camera.Step(s.now, s.event.(method.CameraEvent))
		} else {
			did = server.Step(s.now, s.event.(method.ServerEvent))
		}
		if !reflect.DeepEqual(did, s.did) {
			t.Fatalf("at %v, %T: it did %+v, and before %+v", s.now, s.event, did, s.did)
		}
	}
}

// checkStrangers holds that messages about segments that never were come to nothing.
func checkStrangers(t *testing.T, m method.Method) {
	camera, server := m.New()
	const n = 7
	for _, event := range []method.CameraEvent{
		method.Encoded{Segment: n}, method.Answer{Segment: n, Content: method.Wanted{}}, method.Answer{Segment: n, Content: method.Seen{}},
		method.Answer{Segment: n, Content: method.Sensitive{Gradient: oneadapt.NewMap(1, 1)}},
		method.Found{Segment: n}, method.Measured{Segment: n}, method.Tracked{Segment: n}, method.Tried{Segment: n}, method.Woke{}, method.Link{},
	} {
		if did := camera.Step(0, event); len(did) > 0 {
			t.Errorf("the camera's side does %+v on %T of a segment that is unknown", did, event)
		}
	}
	for _, event := range []method.ServerEvent{
		method.Arrived{Segment: n, Stream: method.B, Frames: []int{0}, Of: 1}, method.Inferred{Segment: n}, method.GradientComputed{Segment: n, Gradient: oneadapt.NewMap(1, 1)},
		method.Skip{Segment: n, Stream: method.B, Of: 1},
		method.Failed{Segment: n, Stream: method.B, Of: 1}, method.Woke{}, method.Ended{},
	} {
		if did := server.Step(0, event); len(did) > 0 {
			t.Errorf("the server's side does %+v on %T of a segment that is unknown", did, event)
		}
	}
}

// checkMemory holds that state does not grow with the stream.
func checkMemory(t *testing.T, m method.Method) {
	size := func(segments int) int {
		w := runWorld(m, segments, 1, faults{answerLost: 0.2, failed: 0.1, linkDown: true})
		return sizeOf(reflect.ValueOf(w.camera), map[uintptr]bool{}) + sizeOf(reflect.ValueOf(w.server), map[uintptr]bool{})
	}
	if short, long := size(50), size(1000); long > 2*short+1<<14 {
		t.Errorf("after 50 segments its state has %d bytes, after 1000 it has %d", short, long)
	}
}

// sizeOf is about how many bytes a value takes with all it leads to.
func sizeOf(v reflect.Value, seen map[uintptr]bool) (n int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() || seen[v.Pointer()] {
			return 8
		}
		seen[v.Pointer()] = true
	case reflect.Interface:
		if v.IsNil() {
			return 16
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return 16 + sizeOf(v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			n += sizeOf(v.Field(i), seen)
		}
		return n
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			n += sizeOf(it.Key(), seen) + sizeOf(it.Value(), seen)
		}
		return n + 48
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			n += sizeOf(v.Index(i), seen)
		}
		return n + 24
	case reflect.String:
		return 16 + v.Len()
	}
	return int(v.Type().Size())
}
