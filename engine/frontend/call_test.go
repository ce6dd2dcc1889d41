package frontend

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// serveOn serves until ctx ends, as a process does.
func serveOn(ctx context.Context, f *Frontend, listener net.Listener) error {
	return f.pool.Serve(ctx, func(ctx context.Context) error { return f.Serve(ctx, listener) })
}

// start serves a request in a goroutine that ends with it, and returns a channel of its response.
func start(f *Frontend, r *http.Request) <-chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		done <- w
	}()
	return done
}

func newPost(body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(body))
}

func TestFirstExecutorIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newUnwelcomed(t, Config{}, client.Config{}, say("Y", engine.FinishLength))
		if w := do(f, http.MethodGet, "/ready", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("ready before any executor: %d", w.Code)
		}
		early := start(f, newPost(`{"prompt":"a","max_tokens":1}`))
		time.Sleep(10 * time.Second)
		f.pool.Deliver(&wire.Welcome{Epoch: 9})
		synctest.Wait()
		f.pool.Deliver(welcome(9))
		if w := <-early; w.Code != http.StatusOK {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}

// TestReadyAwaitsVideoAndBatches holds that /ready covers the processes beside the frontend that it hands requests to.
func TestReadyAwaitsVideoAndBatches(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Video: filepath.Join(dir, "video"), Batches: filepath.Join(dir, "batches")}
	f, _ := newFrontend(t, cfg, nil)
	for _, step := range []struct{ lacking, comes string }{{"video streams is starting", cfg.Video}, {"files and batches is starting", cfg.Batches}} {
		if w := do(f, http.MethodGet, "/ready", ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), step.lacking) {
			t.Errorf("ready before %s is there: %d %s", step.comes, w.Code, w.Body)
		}
		listener, err := net.Listen("unix", step.comes)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	if w := do(f, http.MethodGet, "/ready", ""); w.Code != http.StatusOK {
		t.Errorf("ready with all processes: %d %s", w.Code, w.Body)
	}
}

func TestSilentScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFrontend(t, Config{}, nil)
		time.Sleep((missedHeartbeats + 1) * time.Second)
		if w := do(f, http.MethodGet, "/ready", ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "silent for 11s") {
			t.Errorf("ready after unanswered heartbeats: %d %s", w.Code, w.Body)
		}
		time.Sleep(time.Minute - (missedHeartbeats+1)*time.Second)
		if w := do(f, http.MethodGet, "/health", ""); w.Code != http.StatusOK {
			t.Errorf("health at the limit: %d", w.Code)
		}
		time.Sleep(time.Second)
		for _, path := range []string{"/health", "/ready"} {
			if w := do(f, http.MethodGet, path, ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "1m1s") {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"a"}`)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
			t.Errorf("status %d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	})
}

func TestNoExecutorComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newUnwelcomed(t, Config{}, client.Config{AwayTimeout: 5 * time.Second}, nil)
		start := time.Now()
		w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"a"}`)
		if w.Code != http.StatusServiceUnavailable || time.Since(start) != 5*time.Second {
			t.Errorf("status %d after %v", w.Code, time.Since(start))
		}
	})
}

func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFrontend(t, Config{}, nil)
		ctx, leave := context.WithCancel(t.Context())
		done := start(f, newPost(`{"prompt":["a","b","c"],"max_tokens":1}`).WithContext(ctx))
		synctest.Wait()
		submits, _ := s.Seen()
		f.pool.Deliver(token(submits[1].ID, 0, 'x', engine.FinishLength))
		synctest.Wait()
		leave()
		if w := <-done; w.Code != 499 || !strings.Contains(w.Body.String(), "client_closed_request") {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		_, cancels := s.Seen()
		if len(cancels) != 2 || cancels[0] != submits[0].ID || cancels[1] != submits[2].ID {
			t.Errorf("cancelled %v of %v", cancels, submits)
		}
	})
}

// TestServeFollowsTheScheduler holds that Serve greets the scheduler as the frontend that it is, takes what
// comes, and ends when its connection is closed.
func TestServeFollowsTheScheduler(t *testing.T) {
	f, s := newUnwelcomed(t, Config{}, client.Config{Heartbeat: time.Millisecond, Name: "front-1"}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serveOn(t.Context(), f, listener) }()
	s.Inbox <- welcome(5)
	s.Inbox <- &wire.Lost{}
	for len(s.Hellos()) <= 5 {
		time.Sleep(time.Millisecond)
	}
	close(s.Inbox)
	if err := <-served; err == nil || !strings.Contains(err.Error(), "connection to the scheduler: closed") {
		t.Errorf("Serve returned %v", err)
	}
	for _, h := range s.Hellos() {
		if h.Role != wire.RoleFrontend || h.Name != "front-1" {
			t.Errorf("hello %+v", h)
		}
	}
	if state := f.pool.State(); state.Epoch != 5 || state.Models["demo"].Executors != 1 {
		t.Errorf("state %+v", state)
	}
}

// TestStopCancels holds that a stop string ends the work, and only of its own choice.
func TestStopCancels(t *testing.T) {
	f, s := newFrontend(t, Config{}, func(s *wire.Submit) []*wire.Result {
		return say("abcdef", engine.FinishStop)(s)[:5] // and more to come
	})
	var answer completions.Completion
	post(t, f, "/v1/completions", `{"prompt":"x","max_tokens":20,"n":2,"stop":["cd"]}`, &answer)
	submits, cancels := s.Seen()
	if len(cancels) != 2 || cancels[0] != submits[0].ID || answer.Choices.Items[1].Text != "ab" {
		t.Errorf("cancelled %v, answer %+v", cancels, answer)
	}
}

func TestEngineErrors(t *testing.T) {
	for _, c := range []struct {
		err    *engine.Error
		status int
		code   string
		retry  string
		again  string // X-Should-Retry
	}{
		{engine.Errorf(engine.CodeInternal, "m"), 500, "internal_error", "", ""},
		{engine.Errorf(engine.CodeTooLong, "m"), 400, "context_length_exceeded", "", "false"},
		{engine.Errorf(engine.CodeBadTokens, "m"), 400, "invalid_tokens", "", "false"},
		{&engine.Error{Code: engine.CodeOverloaded, Message: "m", RetryAfter: 2100 * time.Millisecond}, 429, "overloaded", "3", ""},
		{engine.Errorf(engine.CodeOverloaded, "m"), 429, "overloaded", "1", ""},
		{engine.Errorf(engine.CodeDeadline, "m"), 504, "deadline_exceeded", "", "false"},
		{engine.Errorf(engine.CodeExecutorLost, "m"), 500, "executor_lost", "", "false"},
		{engine.Errorf(engine.CodeUnavailable, "m"), 503, "unavailable", "1", ""},
		{engine.Errorf(engine.Code(200), "m"), 500, "internal_error", "", ""},
	} {
		f, s := newFrontend(t, Config{}, func(s *wire.Submit) []*wire.Result {
			return []*wire.Result{{Job: s.ID, Err: c.err}}
		})
		w := do(f, http.MethodPost, "/v1/completions", `{"prompt":["a","b"]}`)
		var body api.Error
		decodeBody(t, w.Body, &body)
		if w.Code != c.status || body.Code != c.code || body.Message != "m" || w.Header().Get("Retry-After") != c.retry || w.Header().Get("X-Should-Retry") != c.again {
			t.Errorf("%v: status %d, headers %v, body %+v", c.err.Code, w.Code, w.Header(), body)
		}
		if openJobs(f) != 0 {
			_, cancels := s.Seen()
			t.Errorf("%v: jobs stay open; cancelled %v", c.err.Code, cancels)
		}
	}
}

func TestJobLimit(t *testing.T) {
	f, _ := newFrontendPool(t, Config{}, client.Config{MaxJobs: 2}, nil)
	w := do(f, http.MethodPost, "/v1/completions", `{"prompt":["a","b","c"]}`)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "3 are asked for, and one key may have 2") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestSubmitCarriesTheRequest(t *testing.T) {
	f, s := newFrontend(t, Config{}, say("Y", engine.FinishLength))
	w := do(f, http.MethodPost, "/v1/completions", `{"model":"alias","prompt":[1,2],"max_tokens":3,"temperature":0.5,"top_p":0.9,"seed":-1,"n":2,
		"stop_token_ids":[7],"logit_bias":{"5":-1,"3":2},"allowed_token_ids":[3,5],"logprob_token_ids":[5],"logprobs":4,"echo":true,
		"user":"body","cache_salt":"salt","priority":-2}`, "X-Llm-D-Inference-Fairness-Id", "tenant", "X-Slo-Ttft-Ms", "12.5")
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	submits, _ := s.Seen()
	got := *submits[1]
	work := engine.Tokens{
		IDs: []engine.TokenID{1, 2}, Max: 3, Stop: []engine.TokenID{7, tokenEOS},
		Ask: engine.Ask{Top: 4, Labels: []engine.TokenID{5}, Allowed: engine.NewTokenSet(3, 5), Bias: []engine.TokenBias{{ID: 3, Bias: 2}, {ID: 5, Bias: -1}},
			Temperature: 0.5, TopP: 0.9, Seed: 0},
	}
	want := wire.Submit{Job: engine.Job{
		ID: submits[0].ID + 1, Model: "demo", Work: &work, User: "tenant", Salt: "salt", Priority: -2, Deadline: 12500 * time.Microsecond,
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %+v\nwant %+v, %+v", got, got.Work, want, want.Work)
	}
	first := *tokens(submits[0])
	work.Ask.Seed, work.Ask.PromptLogprobs, work.Ask.PromptTop = ^uint64(0), true, 4 // which one job brings for both
	if !reflect.DeepEqual(first, work) {
		t.Errorf("the first got  %+v\nwant %+v", first, work)
	}
}

// TestPulse holds that a frontend says at each heartbeat how it is, and falls silent when what its requests
// need is held for ever.
func TestPulse(t *testing.T) {
	type pulse struct{ healthy, ready bool }
	pulses := make(chan pulse, 1000)
	var f *Frontend
	f, s := newUnwelcomed(t, Config{}, client.Config{Heartbeat: time.Millisecond, Pulse: func() { healthy, ready := f.State(); pulses <- pulse{healthy, ready} }}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- serveOn(ctx, f, listener) }()
	if p := <-pulses; p != (pulse{healthy: true}) {
		t.Errorf("before any executor: %+v", p)
	}
	s.Inbox <- welcome(5)
	for !(<-pulses).ready { // until it is; a scheduler that is silent for some heartbeats is not
		s.Inbox <- welcome(5)
	}
	release := s.Hold()
	time.Sleep(50 * time.Millisecond) // the pulse that was under way is over
	for len(pulses) > 0 {
		<-pulses
	}
	time.Sleep(50 * time.Millisecond)
	if n := len(pulses); n > 0 {
		t.Errorf("%d pulses while the connection was held", n)
	}
	release()
	<-pulses
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}
