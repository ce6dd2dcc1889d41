package frontend

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// begin serves a request in a goroutine that ends with it, and returns a channel of its response.
func begin(f *Frontend, r *http.Request) <-chan *httptest.ResponseRecorder {
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

func token(job engine.JobID, index int, id engine.TokenID, finish engine.Finish) *wire.Result {
	return &wire.Result{Job: job, Index: index, Answer: &engine.Answer{Token: id}, Finish: finish}
}

func TestSchedulerRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFrontend(t, Config{}, nil)
		done := begin(f, newPost(`{"prompt":["a","b"],"max_tokens":2,"seed":1}`))
		synctest.Wait()
		first, _ := s.seen()
		if len(first) != 2 || first[0].Waited != 0 {
			t.Fatalf("submitted %+v", first)
		}
		f.deliver(token(first[0].Job, 0, 'x', engine.FinishNone))
		f.deliver(token(first[1].Job, 0, 'p', engine.FinishNone))
		f.deliver(token(first[1].Job, 1, 'q', engine.FinishLength))
		time.Sleep(3 * time.Second)
		f.deliver(welcome(1)) // a heartbeat: nothing is missing
		f.deliver(welcome(2)) // a new scheduler: the open job is
		again, _ := s.seen()
		if len(again) != 3 || again[2].Job != first[0].Job || again[2].Waited != 3*time.Second || again[2].Ask.Seed != 1 {
			t.Fatalf("submitted again: %+v", again[2:])
		}
		f.deliver(token(first[0].Job, 0, 'x', engine.FinishNone))
		f.deliver(token(first[0].Job, 1, 'y', engine.FinishLength))
		var answer api.Completion
		decodeBody(t, (<-done).Body, &answer)
		if answer.Choices.Items[0].Text != "xy" || answer.Choices.Items[1].Text != "pq" || answer.Usage.CompletionTokens != 4 {
			t.Errorf("answer %+v", answer)
		}
		if open := openJobs(f); open != 0 {
			t.Errorf("%d jobs are still open", open)
		}
	})
}

func TestSubmitWaitsForScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFrontend(t, Config{}, say("Y", engine.FinishLength))
		s.fail = errors.New("no connection")
		done := begin(f, newPost(`{"prompt":"a","max_tokens":1}`))
		synctest.Wait()
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(time.Second)
		f.deliver(welcome(1))
		if w := <-done; w.Code != http.StatusOK {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if submits, _ := s.seen(); len(submits) != 1 || submits[0].Waited != time.Second {
			t.Errorf("submits %+v", submits)
		}
	})
}

func TestFirstExecutorIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFrontend(t, Config{}, say("Y", engine.FinishLength))
		f.jobs = newJobTable(f.cfg, f.conn, f.log)
		if w := do(f, http.MethodGet, "/ready", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("ready before any executor: %d", w.Code)
		}
		early := begin(f, newPost(`{"prompt":"a","max_tokens":1}`))
		time.Sleep(10 * time.Second)
		f.deliver(&wire.Welcome{Epoch: 9})
		synctest.Wait()
		f.deliver(welcome(9))
		if w := <-early; w.Code != http.StatusOK {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
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
		f, _ := newFrontend(t, Config{AwayTimeout: 5 * time.Second}, nil)
		f.jobs = newJobTable(f.cfg, f.conn, f.log)
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
		done := begin(f, newPost(`{"prompt":["a","b","c"],"max_tokens":1}`).WithContext(ctx))
		synctest.Wait()
		submits, _ := s.seen()
		f.deliver(token(submits[1].Job, 0, 'x', engine.FinishLength))
		synctest.Wait()
		leave()
		if w := <-done; w.Code != statusClientClosed || !strings.Contains(w.Body.String(), "client_closed_request") {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		_, cancels := s.seen()
		if len(cancels) != 2 || cancels[0] != submits[0].Job || cancels[1] != submits[2].Job {
			t.Errorf("cancelled %v of %v", cancels, submits)
		}
	})
}

func TestStrayResults(t *testing.T) {
	f, s := newFrontend(t, Config{}, nil)
	f.deliver(token(77, 0, 'x', engine.FinishNone))
	f.deliver(token(78, 0, 'x', engine.FinishLength))
	f.deliver(&wire.Result{Job: 79, Err: engine.Errorf(engine.CodeInternal, "x")})
	f.deliver(&wire.Cancel{})
	if _, cancels := s.seen(); len(cancels) != 1 || cancels[0] != 77 {
		t.Errorf("cancelled %v; only an unknown job that goes on is withdrawn", cancels)
	}
}

// TestLostResult holds that a job whose Result was lost is run again under another id, and not for
// ever.
func TestLostResult(t *testing.T) {
	for _, c := range []struct{ losses, status int }{{1, 200}, {maxGaps, 200}, {maxGaps + 1, 500}} {
		runs := 0
		f, s := newFrontend(t, Config{}, func(s *wire.Submit) []*wire.Result {
			runs++
			results := []*wire.Result{token(s.Job, 0, 'x', engine.FinishNone), token(s.Job, 1, 'y', engine.FinishNone), token(s.Job, 2, 'z', engine.FinishLength)}
			if runs <= c.losses {
				return results[1:2]
			}
			return results
		})
		w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"a","max_tokens":3}`)
		if w.Code != c.status || c.status == 200 && !strings.Contains(w.Body.String(), `"text":"xyz"`) {
			t.Errorf("%d losses: status %d: %s", c.losses, w.Code, w.Body)
		}
		if _, cancels := s.seen(); len(cancels) != min(c.losses, maxGaps) || openJobs(f) != 0 {
			t.Errorf("%d losses: cancelled %v, %d open", c.losses, cancels, openJobs(f))
		}
	}
}

// TestBrokenConnection holds that the same scheduler gets open jobs again after the connection
// broke, with a Hello before them.
func TestBrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFrontend(t, Config{}, nil)
		done := begin(f, newPost(`{"prompt":"a","max_tokens":1}`))
		synctest.Wait()
		f.deliver(&wire.Lost{})
		late := begin(f, newPost(`{"prompt":"b","max_tokens":1}`))
		synctest.Wait()
		if submits, _ := s.seen(); len(submits) != 1 {
			t.Fatalf("submitted into a broken connection: %+v", submits)
		}
		f.deliver(welcome(1))
		submits, _ := s.seen()
		if len(submits) != 3 || submits[1].Job != submits[0].Job || len(s.hellos) != 1 {
			t.Fatalf("submits %+v, hellos %+v", submits, s.hellos)
		}
		for _, submit := range submits[1:] {
			f.deliver(token(submit.Job, 0, 'x', engine.FinishLength))
		}
		if (<-done).Code != 200 || (<-late).Code != 200 {
			t.Error("not both are answered")
		}
	})
}

// TestServeGreets holds that Serve says Hello at once and at every heartbeat, always as the same
// frontend, takes what comes, and ends when its connection is closed.
func TestServeGreets(t *testing.T) {
	f, s := newFrontend(t, Config{Heartbeat: time.Millisecond, Name: "front-1"}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.Serve(t.Context(), listener) }()
	s.inbox <- welcome(5)
	s.inbox <- &wire.Lost{}
	for {
		s.mu.Lock()
		hellos := len(s.hellos)
		s.mu.Unlock()
		if hellos > 5 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(s.inbox)
	if err := <-served; err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Serve returned %v", err)
	}
	for _, h := range s.hellos {
		if h.Role != wire.RoleFrontend || h.Name != "front-1" || h.Epoch == 0 || h.Epoch != s.hellos[0].Epoch {
			t.Errorf("hello %+v", h)
		}
	}
}

// TestStopCancels holds that a stop string ends the work, and only of its own choice.
func TestStopCancels(t *testing.T) {
	f, s := newFrontend(t, Config{}, func(s *wire.Submit) []*wire.Result {
		return say("abcdef", engine.FinishStop)(s)[:5] // and more to come
	})
	var answer api.Completion
	post(t, f, "/v1/completions", `{"prompt":"x","max_tokens":20,"n":2,"stop":["cd"]}`, &answer)
	submits, cancels := s.seen()
	if len(cancels) != 2 || cancels[0] != submits[0].Job || answer.Choices.Items[1].Text != "ab" {
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
			return []*wire.Result{{Job: s.Job, Err: c.err}}
		})
		w := do(f, http.MethodPost, "/v1/completions", `{"prompt":["a","b"]}`)
		var body api.Error
		decodeBody(t, w.Body, &body)
		if w.Code != c.status || body.Code != c.code || body.Message != "m" || w.Header().Get("Retry-After") != c.retry || w.Header().Get("X-Should-Retry") != c.again {
			t.Errorf("%v: status %d, headers %v, body %+v", c.err.Code, w.Code, w.Header(), body)
		}
		if openJobs(f) != 0 {
			t.Errorf("%v: jobs stay open; cancelled %v", c.err.Code, s.cancels)
		}
	}
}

func TestJobLimit(t *testing.T) {
	f, _ := newFrontend(t, Config{MaxJobs: 2}, nil)
	w := do(f, http.MethodPost, "/v1/completions", `{"prompt":["a","b","c"]}`)
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "limit of 2") {
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
	submits, _ := s.seen()
	got := *submits[1]
	want := wire.Submit{
		Job: submits[0].Job + 1, Model: "demo", Tokens: []engine.TokenID{1, 2}, MaxTokens: 3, StopTokens: []engine.TokenID{7, tokenEOS},
		Ask: engine.Ask{Top: 4, Labels: []engine.TokenID{5}, Allowed: []engine.TokenID{3, 5}, Bias: []engine.TokenBias{{ID: 3, Bias: 2}, {ID: 5, Bias: -1}},
			Temperature: 0.5, TopP: 0.9, Seed: 0, PromptLogprobs: true, PromptTop: 4},
		User: "tenant", Salt: "salt", Priority: -2, Deadline: 12500 * time.Microsecond,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestPulse: a frontend says at each heartbeat how it is, and falls silent when what its requests need is
// held for ever.
func TestPulse(t *testing.T) {
	pulses := make(chan bool, 1000)
	f, s := newFrontend(t, Config{Heartbeat: time.Millisecond, Pulse: func(healthy, ready bool) { pulses <- healthy && ready }}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- f.Serve(ctx, listener) }()
	s.inbox <- welcome(5)
	for !<-pulses { // until it is ready
	}
	f.jobs.mu.Lock()
	time.Sleep(50 * time.Millisecond) // the pulse that was under way is over
	for len(pulses) > 0 {
		<-pulses
	}
	time.Sleep(50 * time.Millisecond)
	if n := len(pulses); n > 0 {
		t.Errorf("%d pulses while the jobs were held", n)
	}
	f.jobs.mu.Unlock()
	<-pulses
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}
