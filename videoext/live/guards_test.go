package live

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/videoext/drift"
)

// lockedMerges are directories that cannot be changed, and what was wanted of them.
type lockedMerges struct {
	mu      sync.Mutex
	reverts []string
	noted   drift.Figures
}

func (l *lockedMerges) Revert(m *Merge, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reverts = append(l.reverts, m.Member+": "+why)
	return errors.New("the directory is locked")
}

func (l *lockedMerges) Note(_ *Merge, now drift.Figures) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted = now
}

// mergedEyes are the network as it is in a generation of a merge, and as it was.
func mergedEyes(generation int) []Model {
	merged, original := eyes[0], eyes[0]
	merged.Merge = &Merge{Dir: "merged", Member: "door", Generation: generation, Shared: 72, Changed: true, Original: "other", Watch: drift.Config{Sample: 1, Rate: 1000, Target: .95}}
	original.Names, original.Original = []string{"other"}, true
	return []Model{merged, original}
}

// TestDriftedNetworkOfALockedMerge: streams are looked at by its original, which looked at frames of the lowest priority before, once, and by the network again when
// another generation is there. A stream that names no model is looked at by the network, as the original is none that it could mean.
func TestDriftedNetworkOfALockedMerge(t *testing.T) {
	e := newEye(t).up()
	var mu sync.Mutex
	blind := "eye"
	lowest := map[string]int{}
	e.refuse = func(s *wire.Submit) *engine.Error {
		mu.Lock()
		defer mu.Unlock()
		if s.Priority == engine.Lowest {
			lowest[s.Model]++
			if s.Promised || s.Deadline != 0 || s.Stream != "" {
				t.Errorf("a sample is %+v", s.Job)
			}
		}
		return nil
	}
	e.blind = func(s *wire.Submit) bool { mu.Lock(); defer mu.Unlock(); return s.Model == blind }
	merges := &lockedMerges{}
	h := newHost(t, e)
	h.end()
	h.models, h.merges, h.logged = mergedEyes(1), merges, zaptest.NewLogger(t, zaptest.Level(zap.FatalLevel))
	h.begin()
	h.mustDeclare(`{"name":"door","source":"drawn.mp4","loop":true}`)
	if h.of("door").Model != "eye" {
		t.Errorf("%+v", h.of("door"))
	}
	seen := func(boxes bool) {
		t.Helper()
		before := h.of("door")
		h.until("door", "looked at", func(s status) bool {
			if s.Number < before.Number+10 {
				return false
			}
			found := s.Boxes*float64(s.Frames) - before.Boxes*float64(before.Frames)
			ok := (found > 5) == boxes
			before = s
			return ok
		})
	}
	seen(true) // by the original
	merges.mu.Lock()
	if len(merges.reverts) != 1 || !strings.HasPrefix(merges.reverts[0], "door: F1 0.000 over the last ") || merges.noted.Samples == 0 || merges.noted.Samples > 200 {
		t.Errorf("%q, %+v", merges.reverts, merges.noted)
	}
	merges.mu.Unlock()
	mu.Lock()
	samples := lowest["other"]
	if lowest["eye"] != 0 || samples == 0 || samples > 200 {
		t.Errorf("%v jobs of the lowest priority", lowest)
	}
	blind = ""
	mu.Unlock()
	if page := h.figures(); !strings.Contains(page, `merge_state{model_name="eye",state="drifted"} 1`) || !strings.Contains(page, `merge_reverts_total{model_name="eye"} 1`) {
		t.Error(page)
	}
	h.SetModels(mergedEyes(1)) // the same once more changes nothing
	if n, err := h.findInference("door").currentNetwork(); err != nil || n.Model != "other" {
		t.Errorf("%+v, %v", n, err)
	}
	h.SetModels(mergedEyes(2))
	if n, err := h.findInference("door").currentNetwork(); err != nil || n.Model != "eye" {
		t.Errorf("%+v, %v", n, err)
	}
	h.until("door", "compared again", func(status) bool { mu.Lock(); defer mu.Unlock(); return lowest["other"] > samples+3 })
	if page := h.figures(); !strings.Contains(page, `merge_state{model_name="eye",state="watched"} 1`) || !strings.Contains(page, `merge_agreement{model_name="eye"} 1`) {
		t.Error(page)
	}
	if err := h.drop("door"); err != nil {
		t.Error(err)
	}
}

// TestSamplesThatNobodyLooksAt: a device that is never idle leaves a network as it is, and its streams their frames.
func TestSamplesThatNobodyLooksAt(t *testing.T) {
	e := newEye(t).up()
	var mu sync.Mutex
	waiting := 0
	e.refuse = func(s *wire.Submit) *engine.Error {
		if s.Priority != engine.Lowest {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		waiting++
		return engine.Errorf(engine.CodeUnavailable, "there is no model %q", s.Model)
	}
	h := newHost(t, e)
	h.end()
	h.models, h.merges, h.logged = mergedEyes(1), &lockedMerges{}, zaptest.NewLogger(t, zaptest.Level(zap.FatalLevel))
	h.begin()
	h.mustDeclare(`{"name":"door","source":"drawn.mp4","loop":true}`)
	h.until("door", "seen", func(s status) bool { return s.Frames > 20 })
	if s := h.of("door"); s.Dropped != 0 || s.State != stateRunning {
		t.Errorf("%+v", s)
	}
	mu.Lock()
	defer mu.Unlock()
	if page := h.figures(); waiting == 0 || !strings.Contains(page, `merge_samples_total{model_name="eye"} 0`) {
		t.Errorf("%d\n%s", waiting, page)
	}
}

// figures is the page of the server's figures.
func (h *host) figures() string {
	h.Helper()
	response, err := http.Get(h.web.URL + "/metrics")
	if err != nil {
		h.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		h.Fatal(err)
	}
	return string(text)
}

func (h *host) findInference(name string) *inference {
	h.Helper()
	st, err := h.findStream(name, owner{})
	if err != nil {
		h.Fatal(err)
	}
	return st.inference
}
