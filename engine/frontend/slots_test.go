package frontend

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// slotClient asks for a slot, and has it until leave is called.
func slotClient(t *testing.T, address, query string) (status int, next func() slotLine, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/stages/slot?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
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
	status, first, leave := slotClient(t, address, "kind=crop&units=2")
	if status != http.StatusOK || !first().Granted {
		t.Fatalf("status %d, want a slot", status)
	}
	_, running := f.slots.processors.Load()
	next := make(chan slotLine)
	go func() {
		_, first, leave := slotClient(t, address, "kind=crop&units=2")
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
