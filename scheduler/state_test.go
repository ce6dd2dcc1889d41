package scheduler

import (
	"reflect"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestStates: frontends hear of executors that load and of those alive, each once, and not of those
// that are gone.
func TestStates(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	w.frontend("web")
	info := executorInfo()
	hello := func(name string, loaded uint64, ready bool) []Envelope {
		m := &wire.Hello{Role: wire.RoleExecutor, Name: name, Epoch: 1, State: &wire.ExecutorState{Name: name, Loaded: loaded, ToLoad: 10}}
		if ready {
			m.Executor = info.info()
		}
		return w.step(PeerID(name), m)
	}
	states := func() map[string]uint64 {
		t.Helper()
		out := w.core.Step(w.now, "web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1})
		got := map[string]uint64{}
		for _, e := range out {
			if m, ok := e.Msg.(*wire.Welcome); ok {
				for _, s := range m.States {
					got[s.Name] = s.Loaded
				}
				if len(got) != len(m.States) {
					t.Errorf("an executor is listed twice: %+v", m.States)
				}
			}
		}
		return got
	}
	if out := hello("cuda-0", 3, false); len(out) != 0 {
		t.Errorf("a loading executor is answered %+v", out)
	}
	hello("cuda-1", 4, false)
	if got := states(); !reflect.DeepEqual(got, map[string]uint64{"cuda-0": 3, "cuda-1": 4}) {
		t.Errorf("while both load: %v", got)
	}
	hello("cuda-0", 10, true)
	if got := states(); !reflect.DeepEqual(got, map[string]uint64{"cuda-0": 10, "cuda-1": 4}) {
		t.Errorf("with one ready: %v", got)
	}
	for range 4 { // cuda-1 falls silent
		w.now += w.core.cfg.PeerTimeout / 3
		hello("cuda-0", 10, true)
		w.step("web", &wire.Tick{})
	}
	if got := states(); !reflect.DeepEqual(got, map[string]uint64{"cuda-0": 10}) {
		t.Errorf("after cuda-1's silence: %v", got)
	}
	w.now += time.Second
	w.step("cuda-0", &wire.Lost{})
	if got := states(); len(got) != 0 {
		t.Errorf("after cuda-0's loss: %v", got)
	}
}
