package frontend

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// slotClient asks for a slot, and has it until leave is called.
func slotClient(t *testing.T, address, query, key string) (status int, next func() slotLine, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/stages/slot?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(answer.Body)
	next = func() (l slotLine) {
		if !lines.Scan() {
			t.Fatal("the answer has ended")
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	return answer.StatusCode, next, func() { cancel(); answer.Body.Close() }
}

// TestSlotIsHeldWhileTheAnswerIsOpen: another program has a slot from the first line until it hangs up; then the next one has it.
func TestSlotIsHeldWhileTheAnswerIsOpen(t *testing.T) {
	f, _ := newFrontend(t, Config{}, nil)
	address, stop := serveProxy(t, f)
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	status, first, leave := slotClient(t, address, "kind=crop&units=2", "")
	if status != http.StatusOK || !first().Granted {
		t.Fatalf("status %d, want a slot", status)
	}
	_, running := f.slots.processors.Load()
	next := make(chan slotLine)
	go func() {
		_, first, leave := slotClient(t, address, "kind=crop&units=2", "")
		defer leave()
		next <- first()
	}()
	for waiting := 0; waiting == 0; waiting, _ = f.slots.processors.Load() {
		time.Sleep(time.Millisecond)
	}
	leave()
	if l := <-next; !l.Granted || running != 1 {
		t.Errorf("got %+v, and %d ran before; want the slot once the first had left", l, running)
	}
}

// TestSlotsThatCannotBeInTimeAreRefused: what a program still has to do behind the stage counts.
func TestSlotsThatCannotBeInTimeAreRefused(t *testing.T) {
	f, _ := newFrontend(t, Config{}, nil)
	for query, want := range map[string]struct {
		status int
		words  string
	}{
		"kind=crop&deadline_ms=900&then=device:1.2": {http.StatusTooManyRequests, "cannot end by its deadline"},
		"":                                      {http.StatusBadRequest, "invalid kind"},
		"kind=Crop":                             {http.StatusBadRequest, `invalid kind \"Crop\"`},
		"kind=" + strings.Repeat("a", 33):       {http.StatusBadRequest, "invalid kind"},
		"kind=crop&units=-1":                    {http.StatusBadRequest, "invalid units"},
		"kind=crop&units=NaN":                   {http.StatusBadRequest, "invalid units"},
		"kind=crop&units=1001":                  {http.StatusBadRequest, "from 0 to 1000"},
		"kind=crop&deadline_ms=soon":            {http.StatusBadRequest, "invalid deadline_ms"},
		"kind=crop&deadline_ms=900&then=device": {http.StatusBadRequest, "want NAME:SECONDS"},
		"kind=crop&deadline_ms=900&then=device:1,:2":    {http.StatusBadRequest, "want NAME:SECONDS"},
		"kind=crop&deadline_ms=900&then=device:1000000": {http.StatusBadRequest, "invalid then"},
	} {
		answer := httptest.NewRecorder()
		f.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v1/stages/slot?"+query, nil))
		if answer.Code != want.status || !strings.Contains(answer.Body.String(), want.words) {
			t.Errorf("%q: %d %s, want %d with %q", query, answer.Code, answer.Body, want.status, want.words)
		}
	}
}

// TestKindsOfSlotsAreBounded: each has a profile of its own.
func TestKindsOfSlotsAreBounded(t *testing.T) {
	e := newSlotEndpoint(nil)
	for i := range maxSlotKinds {
		if !e.knowsKind(strings.Repeat("a", i+1)) {
			t.Fatalf("kind %d is refused", i)
		}
	}
	if e.knowsKind("b") || !e.knowsKind("a") {
		t.Error("one kind more is known, or one of those before is not")
	}
}

// TestSlotsThatAreNotGiven: a server whose operator gives other programs none says by which parameter, and waits for nothing.
func TestSlotsThatAreNotGiven(t *testing.T) {
	f, _ := newFrontend(t, Config{}, nil)
	path := filepath.Join(t.TempDir(), "s")
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	parameters := processors.WithDefaults(stages.Parameters{Policy: stages.OnTime})
	group.Go(func() {
		if err := processors.Serve(ctx, path, parameters); err != nil {
			t.Error(err)
		}
	})
	f.slots.processors = processors.New(2)
	group.Go(func() { f.slots.processors.Follow(ctx, path) })
	for f.slots.processors.OutsideSlots() != 0 {
		time.Sleep(time.Millisecond)
	}
	answer := httptest.NewRecorder()
	f.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v1/stages/slot?kind=crop", nil))
	if answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "--cpu-slots-external is 0") {
		t.Errorf("got %d %s, want 403 with the parameter", answer.Code, answer.Body)
	}
}

// TestOneKeyLeavesOthersTheirShareOfSlots: of two keys that both ask for more than there is, each has the slots of other programs by turns.
func TestOneKeyLeavesOthersTheirShareOfSlots(t *testing.T) {
	f, _ := newFrontend(t, Config{Keys: ring(t, "one", "two")}, nil)
	f.slots.processors = processors.New(2) // of which other programs have one
	address, stop := serveProxy(t, f)
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	_, first, leave := slotClient(t, address, "kind=crop", "one")
	first()
	granted := make(chan string)
	var group sync.WaitGroup
	ask := func(key string) {
		group.Go(func() {
			_, first, leave := slotClient(t, address, "kind=crop", key)
			defer leave()
			first()
			granted <- key
		})
	}
	wait := func(n int) {
		for waiting := 0; waiting < n; waiting, _ = f.slots.processors.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	for n := range 20 {
		ask("one")
		wait(n + 1)
	}
	ask("two")
	wait(21)
	leave()
	if got := <-granted; got != "two" {
		t.Errorf("key %s has the slot next, want two, which had none", got)
	}
	for range 20 {
		<-granted
	}
	group.Wait()
}
