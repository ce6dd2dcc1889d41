package exchange

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
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
