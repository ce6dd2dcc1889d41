package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/prefillonly/prefillonly/engine/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rules() batch.Rules {
	return batch.Rules{MaxLine: 1 << 20, Serves: func(string) bool { return true }}
}

func file(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"/x\",\"body\":{}}\n", i)
	}
	return b.String()
}

// kept collects answers.
type kept struct {
	mu   sync.Mutex
	byID map[string]int
	ok   int
}

func (k *kept) keep(l *batch.Line, _ []byte, ok bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil {
		k.byID = map[string]int{}
	}
	k.byID[l.CustomID]++
	if ok {
		k.ok++
	}
	return nil
}

func (k *kept) once(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if got := k.byID[fmt.Sprint(i)]; got != 1 {
			t.Errorf("line %d has %d answers", i, got)
		}
	}
}

// TestRun: lines go side by side as far as there is room, those that are refused for a time go again, and each is answered once.
func TestRun(t *testing.T) {
	const lines, room = 100, 7
	var k kept
	var under, most, asked atomic.Int64
	run := &Run{Input: strings.NewReader(file(lines)), Rules: rules(), Room: NewRoom(room), Keep: k.keep, Ask: func(_ context.Context, l *batch.Line) (*batch.Reply, error) {
		if n := under.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer under.Add(-1)
		if asked.Add(1)%10 == 0 {
			return &batch.Reply{Status: 429, RetryAfter: time.Millisecond}, nil
		}
		return &batch.Reply{Status: 200, Body: []byte("{}")}, nil
	}}
	if err := run.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.once(t, lines)
	if most.Load() > room || asked.Load() <= lines || k.ok != lines {
		t.Errorf("%d lines side by side, %d requests, %d fine", most.Load(), asked.Load(), k.ok)
	}
}

// TestStopped: what ends a run ends the lines under way, and nothing is kept after it.
func TestStopped(t *testing.T) {
	full := errors.New("full")
	for name, c := range map[string]struct {
		keep func(*batch.Line, []byte, bool) error
		want error
	}{
		"the context": {nil, context.Canceled},
		"the answers": {func(*batch.Line, []byte, bool) error { return full }, full},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var k kept
			keep := c.keep
			if keep == nil {
				keep = func(l *batch.Line, answer []byte, ok bool) error {
					stop()
					return k.keep(l, answer, ok)
				}
			}
			run := &Run{Input: strings.NewReader(file(50)), Rules: rules(), Room: NewRoom(8), Keep: keep, Ask: func(ctx context.Context, l *batch.Line) (*batch.Reply, error) {
				if l.Number == 5 {
					return &batch.Reply{Status: 200, Body: []byte("{}")}, nil
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}}
			if err := run.Do(ctx); !errors.Is(err, c.want) {
				t.Errorf("the run ended with %v, want %v", err, c.want)
			}
			if len(k.byID) > 1 {
				t.Errorf("%d answers were kept", len(k.byID))
			}
		})
	}
}

// TestExpired: lines without an answer get one that says so.
func TestExpired(t *testing.T) {
	var k kept
	expired := make(chan struct{})
	var late atomic.Int64
	run := &Run{Input: strings.NewReader(file(50)), Rules: rules(), Room: NewRoom(8), Keep: k.keep, Expired: expired, Late: func(l *batch.Line) []byte {
		late.Add(1)
		return l.Unanswered("batch_expired", "late")
	}, Ask: func(_ context.Context, l *batch.Line) (*batch.Reply, error) {
		if l.Number == 10 {
			close(expired)
		}
		if l.Number > 3 {
			return &batch.Reply{Status: 503, RetryAfter: time.Hour}, nil
		}
		return &batch.Reply{Status: 200, Body: []byte("{}")}, nil
	}}
	if err := run.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.once(t, 50)
	if k.ok > 3 || int(late.Load())+k.ok != 50 {
		t.Errorf("%d lines answered, %d late", k.ok, late.Load())
	}
}

// TestJournal: half an answer is cut off, also one that a full disk left.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "answers")
	line := &batch.Line{ID: "batch_req_1", CustomID: "1"}
	whole := line.Answer(&batch.Reply{Status: 200, Body: []byte("{}")})
	if err := os.WriteFile(path, append(whole, `{"id":"batch_`...), 0o600); err != nil {
		t.Fatal(err)
	}
	done := batch.Answered{}
	j, err := OpenJournal(path, done)
	if err != nil || len(done) != 1 || j.size != int64(len(whole)) {
		t.Fatalf("%v %v %d", err, done, j.size)
	}
	if _, err := OpenJournal(path, batch.Answered{}); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("a second process opens it: %v", err)
	}
	if err := j.Append([]byte("more\n")); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != string(whole)+"more\n" {
		t.Errorf("the file holds %q", text)
	}
	if _, err := OpenJournal(t.TempDir(), batch.Answered{}); err == nil {
		t.Error("a directory is taken for a file of answers")
	}
}
