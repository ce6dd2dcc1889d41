package exchange

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/internal/processors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func decodeText(body []byte) (*string, *api.Error) {
	text := string(body)
	return &text, nil
}

// TestBigBodiesWaitForProcessors holds that no more big bodies are prepared at a time than there are processors, that small ones wait for none of
// them, and that those whose client leaves give their memory back, while prepared or in the queue.
func TestBigBodiesWaitForProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 2
		s := NewShared(Config{MaxBody: 1 << 20, Draining: func() bool { return false }, Processors: processors.New(slots), Log: zap.NewNop()})
		var inTurn atomic.Int32
		prepare := func(ctx context.Context, body string, next func()) *Refusal {
			x, _, r := s.Begin(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body)))
			defer x.End()
			_, refused := Prepare(x, r, decodeText, func(*string) (*string, *Refusal) { next(); return nil, nil })
			return refused
		}
		ctx, leave := context.WithCancel(t.Context())
		const clients = 20
		ends := make(chan *Refusal, clients)
		for range clients {
			go func() { // ends when the client leaves
				ends <- prepare(ctx, strings.Repeat("p", bigPrompt), func() { inTurn.Add(1); <-ctx.Done() })
			}()
		}
		synctest.Wait()
		if got := int(inTurn.Load()); got != slots || s.Held() == 0 {
			t.Errorf("%d big bodies are prepared at a time, want %d; %d bytes are held", got, slots, s.Held())
		}
		if refused := prepare(t.Context(), strings.Repeat("p", bigPrompt-1), func() {}); refused != nil {
			t.Errorf("a small body: %+v", refused)
		}
		leave()
		for range clients {
			if refused := <-ends; refused != nil && refused.Status != statusClientClosed {
				t.Errorf("a client that left: %+v", refused)
			}
		}
		if s.Held() != 0 {
			t.Errorf("%d bytes are held", s.Held())
		}
	})
}

// TestLongBodiesHaveAllSlots: as they yield between pieces of their text, they leave no slot to others while there are none.
func TestLongBodiesHaveAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := processors.New(2)
		s := NewShared(Config{MaxBody: 4 << 20, Draining: func() bool { return false }, Processors: pool, Log: zap.NewNop()})
		letGo := make(chan struct{})
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				x, _, r := s.Begin(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("p", 2<<20))))
				defer x.End()
				Prepare(x, r, decodeText, func(*string) (*string, *Refusal) { <-letGo; return nil, nil })
			})
		}
		synctest.Wait()
		if waiting, running := pool.Load(); waiting != 0 || running != 2 {
			t.Errorf("%d run and %d wait, want 2 and 0", running, waiting)
		}
		close(letGo)
		group.Wait()
	})
}
