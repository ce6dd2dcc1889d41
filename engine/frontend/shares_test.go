package frontend

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
)

// TestOneKeyLeavesRoom: a key that asks for all that requests may hold is refused at its share, and others, of keys and of addresses
// where there are no keys, are taken in beside it.
func TestOneKeyLeavesRoom(t *testing.T) {
	keys, err := apikey.NewRing([]string{"one team", "two team", "other"}, "", apikey.IsolateKeys)
	if err != nil {
		t.Fatal(err)
	}
	type from struct{ key, address string }
	for name, c := range map[string]struct {
		keys       *apikey.Ring
		own, other []from
	}{
		"keys":      {keys, []from{{"one", "10.0.0.1:1"}, {"two", "10.0.0.2:1"}}, []from{{"other", "10.0.0.1:1"}}},
		"addresses": {nil, []from{{"", "10.0.0.1:1"}, {"", "10.0.0.1:2"}}, []from{{"", "10.0.0.2:1"}, {"", "[2001:db8::1]:1"}}},
	} {
		for what, body := range map[string]string{"open jobs": `{"prompt":"a"}`, "log-probabilities": `{"prompt":"abcd","prompt_logprobs":1,"max_tokens":0}`} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, leave := context.WithCancel(t.Context())
					defer synctest.Wait() // for those that have left
					defer leave()
					cfg, pool := Config{Keys: c.keys}, client.Config{}
					if what == "open jobs" {
						pool.MaxJobs = 16
					} else {
						cfg.MaxLogprobs = 40 // 10 a request, 160 in all
					}
					f, _ := newFrontendPool(t, cfg, pool, nil)
					post := func(who from) *http.Request {
						r := newPost(body).WithContext(ctx)
						r.Header.Set("Authorization", "Bearer "+who.key)
						r.RemoteAddr = who.address
						return r
					}
					for i := range 12 {
						start(f, post(c.own[i%2]))
					}
					synctest.Wait()
					if n := openJobs(f); n != 12 {
						t.Fatalf("%d of 12 are taken in", n)
					}
					for _, who := range c.own {
						w := <-start(f, post(who))
						if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "your requests hold 12") {
							t.Errorf("beyond its share: %d %s", w.Code, w.Body)
						}
					}
					for i, who := range c.other {
						start(f, post(who))
						synctest.Wait()
						if n := openJobs(f); n != 13+i {
							t.Errorf("%v is not taken in: %d jobs", who, n)
						}
					}
				})
			})
		}
	}
}
