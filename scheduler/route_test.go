package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// cluster is a world of executors gpu-0, gpu-1, ... of known speed.
func cluster(t *testing.T, n int, routing string) *world {
	cfg := DefaultConfig()
	cfg.Routing, cfg.MaxPassItems, cfg.PeerTimeout = routing, 1, 1<<60
	w := newWorld(t, cfg)
	w.frontend("web")
	for i := range n {
		info := executorInfo()
		info.CostToken = time.Millisecond
		w.executor(PeerID(fmt.Sprintf("gpu-%d", i)), 1, info)
	}
	return w
}

// where submits a job and returns the executor that has it.
func (w *world) where(m *submission) string {
	m.MaxTokens = max(m.MaxTokens, 1)
	w.submit("web", m)
	return w.core.jobs[m.Job].Instance.Executor.Name
}

// finishAll answers the passes that run, until none does.
func (w *world) finishAll() {
	for busy := true; busy; {
		busy = false
		for _, e := range w.core.fleet.Executors {
			if p := e.Running; p != nil {
				busy = true
				d := &wire.Done{Pass: p.ID, Took: time.Millisecond}
				for _, j := range p.Items {
					d.Items = append(d.Items, answered(j.Submit.ID, &engine.Answer{}))
				}
				w.step(e.ID, d)
			}
		}
	}
}

func TestRouteByPrefix(t *testing.T) {
	w := cluster(t, 3, RoutePrefix)
	first := w.where(&submission{Job: 1, Tokens: tokens(1, 200)})
	if other := w.where(&submission{Job: 2, Tokens: tokens(2, 200)}); other == first {
		t.Errorf("two strangers are both on %s while others are idle", first)
	}
	if same := w.where(&submission{Job: 3, Tokens: tokens(1, 210)}); same != first {
		t.Errorf("a job that begins as one running on %s does is on %s", first, same)
	}
	w.finishAll()
	if same := w.where(&submission{Job: 4, Tokens: tokens(1, 220)}); same != first {
		t.Errorf("a job whose prefix is cached on %s is on %s", first, same)
	}
	w.where(&submission{Job: 5, Tokens: tokens(1, 9000)})
	if other := w.where(&submission{Job: 6, Tokens: tokens(1, 221)}); other == first {
		t.Errorf("200 cached tokens hold a job on %s behind 9000 others", first)
	}
}

func TestRouteByLoad(t *testing.T) {
	w := cluster(t, 3, RouteLoad)
	seen := map[string]int{}
	for i := range 9 {
		seen[w.where(&submission{Job: engine.JobID(i + 1), Tokens: tokens(1, 100)})]++
	}
	for name, n := range seen {
		if n != 3 {
			t.Errorf("%s has %d of nine equal jobs, want 3", name, n)
		}
	}
}

func TestRouteByUser(t *testing.T) {
	w := cluster(t, 4, RouteUser)
	homes := func(job int) map[string]string {
		at := map[string]string{}
		for u := range 40 {
			user := fmt.Sprint("user-", u)
			at[user] = w.where(&submission{Job: engine.JobID(job + u), Tokens: tokens(u, 20), User: user})
		}
		return at
	}
	before := homes(100)
	users := map[string]int{}
	for _, name := range before {
		users[name]++
	}
	if len(users) != 4 {
		t.Errorf("40 users are spread as %v over 4 executors", users)
	}
	w.step("gpu-2", &wire.Lost{})
	during := homes(200)
	for user, name := range before {
		if moved := during[user] != name; moved != (name == "gpu-2") {
			t.Errorf("%s was on %s and is on %s after gpu-2 has died", user, name, during[user])
		}
	}
	info := executorInfo()
	w.executor("gpu-2", 9, info)
	for _, j := range w.core.jobs {
		if home := before[j.Submit.User]; j.State == executors.Waiting && home == "gpu-2" && j.Instance.Executor.Name != home {
			t.Errorf("job %v of %s waits on %s, its home %s is back", j.Submit.ID, j.Submit.User, j.Instance.Executor.Name, home)
		}
	}
	for user, name := range homes(300) {
		if name != before[user] {
			t.Errorf("%s was on %s and is on %s after gpu-2 is back", user, before[user], name)
		}
	}
}

// TestIdleExecutorsSteal brings an executor to one that has more than it can do soon.
func TestIdleExecutorsSteal(t *testing.T) {
	w := cluster(t, 1, RoutePrefix)
	for i := range 4 {
		w.where(&submission{Job: engine.JobID(i + 1), Tokens: tokens(i, 400)})
	}
	info := executorInfo()
	info.CostToken = time.Millisecond
	if r := runs(w.executor("gpu-1", 1, info)); len(r) != 1 || r[0].Items[0].Job != 4 {
		t.Errorf("a new executor gets %+v, want the newest of the waiting jobs", r)
	}
}

// TestOtherCheckpointsDoNotServe registers an executor of the same model name with other weights.
func TestOtherCheckpointsDoNotServe(t *testing.T) {
	w := cluster(t, 1, RouteLoad)
	info := executorInfo()
	info.Fingerprint = "other"
	w.executor("odd", 1, info)
	for i := range 5 {
		if name := w.where(&submission{Job: engine.JobID(i + 1), Tokens: tokens(i, 400)}); name == "odd" {
			t.Fatal("an executor of another checkpoint got a job")
		}
	}
	if r := runs(w.step("", &wire.Tick{})); len(r) > 0 {
		t.Fatalf("an executor of another checkpoint took %+v", r)
	}
	out := w.step("gpu-0", &wire.Lost{})
	if r := runs(out); len(r) != 1 || !strings.HasPrefix(string(out[len(out)-1].To), "odd") {
		t.Errorf("when it is the only one left it gets %+v, want its first pass", out)
	}
}
