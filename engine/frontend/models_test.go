package frontend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// upperTokenizer reads texts in upper case, without a BOS, and has one token less than the bytes: of the EOS that it
// names its model knows nothing.
type upperTokenizer struct{ byteTokenizer }

func (t upperTokenizer) Encode(ctx context.Context, salt, text string, _ bool) ([]engine.TokenID, error) {
	return t.byteTokenizer.Encode(ctx, salt, strings.ToUpper(text), false)
}
func (upperTokenizer) VocabSize() int { return 255 }

// textOf opens a tokenizer, and counts that.
func textOf(tok text.Tokenizer, opened *int) func() (*text.Text, error) {
	return func() (*text.Text, error) {
		*opened++
		return &text.Text{Tokenizer: tok, Template: lineTemplate{}}, nil
	}
}

// newPool makes a Frontend of models in a pool that serves the given ones.
func newPool(t testing.TB, cfg Config, models []registry.Model, served []wire.Served, answer func(*wire.Submit) []*wire.Result) (*Frontend, *clienttest.Scheduler) {
	t.Helper()
	s := clienttest.NewScheduler(answer)
	f, err := New(cfg, models, client.New(client.Config{}, s, zap.NewNop()), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	s.Deliver = f.pool.Deliver
	f.pool.Deliver(&wire.Welcome{Epoch: 1, Models: 1, Served: served})
	return f, s
}

// twoModels are "demo", and "org/upper" of another vocabulary, context and text.
func twoModels() ([]registry.Model, []wire.Served) {
	var opened int
	upper := clienttest.Served("org/upper", 255)
	upper.Tokens.MaxModelLen = 16
	upper.Bytes = 1000
	return []registry.Model{demo(byteTokenizer{}), {Name: "org/upper", Open: textOf(upperTokenizer{}, &opened)}},
		[]wire.Served{clienttest.Served("demo", byteVocab), upper}
}

// TestTwoModels holds that each request is read, checked, sent, answered and counted as its model's.
func TestTwoModels(t *testing.T) {
	models, served := twoModels()
	f, s := newPool(t, Config{AccessLog: true}, models, served, say("yes", engine.FinishLength))
	core, logs := observer.New(zapcore.InfoLevel)
	f.log = zap.New(core)
	ask := func(path, body string) (int, string) {
		w := do(f, http.MethodPost, path, body)
		return w.Code, w.Body.String()
	}
	for model, want := range map[string]string{"demo": "ab", "org/upper": "AB"} {
		status, body := ask("/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"ab","max_tokens":2}`, model))
		submits, _ := s.Seen()
		last := submits[len(submits)-1]
		ids := tokens(last).IDs
		if status != 200 || last.Model != model || !slices.Equal(ids[len(ids)-2:], byteIDs(want)) || !strings.Contains(body, `"model":"`+model+`"`) {
			t.Errorf("%s: %d %s; sent %s %v", model, status, body, last.Model, ids)
		}
	}
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/v1/completions", `{"model":"demo","prompt":[255]}`, 200, ""},
		{"/v1/completions", `{"model":"org/upper","prompt":[255]}`, 400, "prompt has token id 255; the model's vocabulary has 255 tokens (0 to 254)"},
		{"/v1/completions", `{"model":"org/upper","prompt":"abc","max_tokens":14}`, 400, "holds 16 tokens; prompt 0 has 3 and 14 more"},
		{"/v1/completions", `{"model":"demo","prompt":"abc","max_tokens":14}`, 200, ""},
		{"/v1/completions", `{"prompt":"abc"}`, 400, "names no model, and the server has 2"},
		{"/v1/completions", `{"model":"upper","prompt":"abc"}`, 404, "The model `upper` does not exist."},
		{"/v1/chat/completions", `{"model":"org/upper","messages":[{"role":"user","content":"hello, my friend"}]}`, 400, "this model's context holds 16 tokens"},
		{"/tokenize", `{"model":"org/upper","prompt":"ab"}`, 200, `{"count":2,"max_model_len":16,"tokens":[65,66]`},
		{"/tokenize", `{"model":"demo","prompt":"ab"}`, 200, `{"count":3,"max_model_len":128,"tokens":[256,97,98]`},
		{"/tokenize", `{"prompt":"ab"}`, 400, "names no model"},
		{"/detokenize", `{"model":"org/upper","tokens":[255]}`, 400, "the vocabulary has 255 tokens"},
		{"/v1/completions/render", `{"model":"org/upper","prompt":"ab"}`, 200, `"token_ids":[65,66]`},
	} {
		if status, body := ask(c.path, c.body); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d %s; want %d and %q", c.path, c.body, status, body, c.status, c.says)
		}
	}
	for path, status := range map[string]int{"/tokenizer_info": 400, "/tokenizer_info?model=org/upper": 200, "/tokenizer_info?model=x": 404, "/v1/models/org/upper": 200, "/v1/models/org%2Fupper": 200, "/v1/models/org": 404} {
		if w := do(f, http.MethodGet, path, ""); w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	text := do(f, http.MethodGet, "/metrics", "").Body.String()
	for _, line := range []string{
		`vllm:request_params_n_count{engine="0",model_name="demo"} 3`, `vllm:request_params_n_count{engine="0",model_name="org/upper"} 1`,
		`vllm:num_requests_waiting{engine="0",model_name="org/upper"} 0`, `vllm:num_preemptions_total{engine="0"} 0`,
		`prefillonly:model_state{engine="0",model_name="org/upper",state="ready"} 1`, `prefillonly:model_weight_bytes{engine="0",model_name="org/upper"} 1000`,
		`prefillonly:executors{engine="0",model_name="demo"} 1`, `vllm:inter_token_latency_seconds_count{engine="0",model_name="org/upper"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	named := map[any]int{}
	for _, e := range logs.All() {
		named[e.ContextMap()["model"]]++
	}
	if named["demo"] == 0 || named["org/upper"] == 0 {
		t.Errorf("models in the log: %v", named)
	}
}

// TestListing holds what /v1/models says of a model in each state.
func TestListing(t *testing.T) {
	models := []registry.Model{demo(byteTokenizer{})}
	served := []wire.Served{clienttest.Served("demo", byteVocab)}
	for state := wire.ModelAbsent; state <= wire.ModelFailed; state++ {
		m := clienttest.Served(state.String(), 9)
		m.State, m.Bytes = state, 1<<30
		if state == wire.ModelFailed {
			m.Reason, m.Tokens = "weights end early", nil
		}
		served = append(served, m)
		models = append(models, registry.Model{Name: m.Name})
	}
	models = append(models, registry.Model{Name: "unheard of"})
	f, _ := newPool(t, Config{}, models, served, nil)
	var list api.Models
	decodeBody(t, do(f, http.MethodGet, "/v1/models", "").Body, &list)
	var got []string
	for _, m := range list.Data {
		got = append(got, fmt.Sprintf("%s %s %s %d %d %q", m.ID, m.Root, m.State, m.MaxModelLen, m.Bytes, m.Reason))
		var one api.Model
		decodeBody(t, do(f, http.MethodGet, "/v1/models/"+strings.ReplaceAll(m.ID, " ", "%20"), "").Body, &one)
		if !reflect.DeepEqual(one, m) {
			t.Errorf("alone %+v, in the list %+v", one, m)
		}
	}
	want := []string{
		`demo demo ready 128 0 ""`, `alias demo ready 128 0 ""`, `absent absent absent 128 1073741824 ""`, `loading loading loading 128 1073741824 ""`,
		`ready ready ready 128 1073741824 ""`, `unloading unloading unloading 128 1073741824 ""`,
		`failed failed failed 0 1073741824 "weights end early"`, `unheard of unheard of absent 0 0 ""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestModelsThatCannotServe holds that a request of one gets its reason, and that the others serve.
func TestModelsThatCannotServe(t *testing.T) {
	models, served := twoModels()
	failed := wire.Served{Name: "broken", State: wire.ModelFailed, Reason: "layer 3 is missing"}
	late := clienttest.Served("late", byteVocab) // fails when it is loaded
	late.State, late.Loaded = wire.ModelAbsent, 0
	leaving := clienttest.Served("leaving", byteVocab)
	leaving.State = wire.ModelUnloading
	wordless := clienttest.Served("wordless", byteVocab)
	tries := 0
	models = append(models, registry.Model{Name: "broken", Open: models[1].Open}, registry.Model{Name: "late", Open: models[1].Open}, registry.Model{Name: "leaving", Open: models[1].Open},
		registry.Model{Name: "wordless", Open: func() (*text.Text, error) { tries++; return nil, errors.New("tokenizer.json is missing") }},
		registry.Model{Name: "detector"})
	served = append(served, failed, late, leaving, wordless, wire.Served{Name: "detector", State: wire.ModelReady, Executors: 1, Tensors: &wire.TensorLimits{}})
	f, _ := newPool(t, Config{}, models, served, func(s *wire.Submit) []*wire.Result {
		switch s.Model {
		case "late":
			return []*wire.Result{{Job: s.ID, Err: engine.Errorf(engine.CodeUnavailable, "late cannot be loaded: no space")}}
		case "leaving":
			return []*wire.Result{{Job: s.ID, Err: engine.Errorf(engine.CodeUnavailable, "leaving is being unloaded")}}
		}
		return say("Y", engine.FinishLength)(s)
	})
	for _, c := range []struct {
		model  string
		status int
		says   string
	}{
		{"broken", 503, "the model broken cannot be run: layer 3 is missing"}, {"late", 503, "no space"}, {"leaving", 503, "being unloaded"},
		{"wordless", 503, "the model `wordless` has failed: tokenizer.json is missing"}, {"wordless", 503, "tokenizer.json"},
		{"detector", 400, "the model `detector` takes tensors, not text"}, {"demo", 200, ""}, {"org/upper", 200, ""},
	} {
		w := do(f, http.MethodPost, "/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"a"}`, c.model))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || (w.Header().Get("Retry-After") != "") != (c.status == 503) {
			t.Errorf("%s: %d %v %s", c.model, w.Code, w.Header(), w.Body)
		}
	}
	if tries != 1 {
		t.Errorf("a tokenizer that fails was opened %d times", tries)
	}
	if w := do(f, http.MethodGet, "/v1/models/wordless", ""); !strings.Contains(w.Body.String(), `"state":"failed","reason":"tokenizer.json is missing"`) {
		t.Errorf("%s", w.Body)
	}
}

// TestAbsentModelIsAwaited holds that a request of a model that is not loaded is sent, and waits for its answer.
func TestAbsentModelIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		absent := clienttest.Served("demo", byteVocab)
		absent.State, absent.Loaded = wire.ModelAbsent, 0
		f, s := newPool(t, Config{}, []registry.Model{demo(byteTokenizer{})}, []wire.Served{absent}, nil)
		if w := do(f, http.MethodGet, "/ready", ""); w.Code != 200 {
			t.Errorf("a model that is loaded when it is needed: %d %s", w.Code, w.Body)
		}
		done := start(f, newPost(`{"prompt":"a","max_tokens":1}`))
		time.Sleep(30 * time.Second) // it is being loaded
		f.pool.Deliver(&wire.Welcome{Epoch: 1, Models: 1})
		submits, _ := s.Seen()
		f.pool.Deliver(token(submits[0].ID, 0, 'Y', engine.FinishLength))
		if w := <-done; w.Code != 200 || len(submits) != 1 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestReadiness holds that the server is ready when every model that is kept is or has failed, and one at least can
// serve.
func TestReadiness(t *testing.T) {
	with := func(name string, state wire.ModelState, keep wire.Keep, executors int) wire.Served {
		return wire.Served{Name: name, State: state, Keep: keep, Executors: executors, Reason: map[wire.ModelState]string{wire.ModelFailed: "no file"}[state]}
	}
	const always, demand = wire.KeepAlways, wire.KeepOnDemand
	for _, c := range []struct {
		name   string
		served []wire.Served
		says   string // empty: ready
	}{
		{"nothing is heard of", nil, "no executor serves a yet"},
		{"both are on demand", []wire.Served{with("a", wire.ModelAbsent, demand, 1), with("b", wire.ModelAbsent, demand, 1)}, ""},
		{"one cannot be run", []wire.Served{with("a", wire.ModelFailed, demand, 0), with("b", wire.ModelAbsent, demand, 1)}, ""},
		{"none can", []wire.Served{with("a", wire.ModelFailed, demand, 1), with("b", wire.ModelUnloading, demand, 1)}, "the model a has failed: no file"},
		{"a kept one is loading", []wire.Served{with("a", wire.ModelReady, demand, 1), with("b", wire.ModelLoading, always, 1)}, "the model b is loading"},
		{"a kept one is absent", []wire.Served{with("a", wire.ModelReady, demand, 1), with("b", wire.ModelAbsent, always, 1)}, "the model b is not loaded yet"},
		{"a kept one has failed", []wire.Served{with("a", wire.ModelReady, demand, 1), with("b", wire.ModelFailed, always, 1)}, ""},
		{"all have failed", []wire.Served{with("a", wire.ModelFailed, demand, 1), with("b", wire.ModelFailed, always, 1)}, "the model a has failed: no file"},
		{"a kept one has no executor", []wire.Served{with("a", wire.ModelReady, demand, 1), with("b", wire.ModelAbsent, always, 0)}, "no executor serves b yet"},
		{"the kept ones are ready", []wire.Served{with("a", wire.ModelFailed, demand, 1), with("b", wire.ModelReady, always, 1)}, ""},
		{"a kept one is another frontend's", []wire.Served{with("a", wire.ModelReady, always, 1), with("c", wire.ModelFailed, always, 1)}, ""},
	} {
		f, _ := newPool(t, Config{}, []registry.Model{{Name: "a"}, {Name: "b"}}, c.served, nil)
		w := do(f, http.MethodGet, "/ready", "")
		if ready := w.Code == 200; ready != (c.says == "") || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s; want %q", c.name, w.Code, w.Body, c.says)
		}
		if _, ready := f.State(); ready != (w.Code == 200) {
			t.Errorf("%s: State says %v", c.name, ready)
		}
		for _, m := range c.served {
			if told := strings.Contains(w.Body.String(), fmt.Sprintf(`{"id":%q,"state":%q`, m.Name, m.State)); m.Name != "c" && told != (m.State != wire.ModelAbsent || m.Keep == always) {
				t.Errorf("%s: %s is told: %v in %s", c.name, m.Name, told, w.Body)
			}
		}
	}
	f, _ := newPool(t, Config{}, []registry.Model{{Name: "a"}, {Name: "b", Always: true}}, []wire.Served{with("a", wire.ModelReady, demand, 1)}, nil)
	if w := do(f, http.MethodGet, "/ready", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "no executor serves b yet") {
		t.Errorf("without a model that it is never to be without: %d %s", w.Code, w.Body)
	}
}

// TestLoadAndUnload holds who may load and unload models, and what they and others hear of it.
func TestLoadAndUnload(t *testing.T) {
	models, served := twoModels()
	f, s := newPool(t, Config{Keys: ring(t, "root @admin", "user")}, models, served, nil)
	var asked []wire.SetModel
	s.Set = func(m *wire.SetModel) *engine.Error {
		asked = append(asked, *m)
		if m.Model == "demo" && !m.Unload {
			return engine.Errorf(engine.CodeUnavailable, "demo needs 9 bytes of the 8 that there are")
		}
		if m.Model == "demo" {
			return engine.Errorf(engine.CodeConflict, "demo was told to load meanwhile")
		}
		return nil
	}
	for _, c := range []struct {
		path, key string
		status    int
		says      string
	}{
		{"/v1/models/org/upper/load", "root", 200, `"id":"org/upper","object":"model"`}, {"/v1/models/org%2Fupper/unload", "root", 200, `"state":"absent"`},
		{"/v1/models/alias/load", "root", 503, "demo needs 9 bytes"}, {"/v1/models/demo/unload", "user", 403, "which this one is not"},
		{"/v1/models/demo/unload", "root", 409, "told to load meanwhile"}, {"/v1/models/demo/unload", "", 401, "missing_api_key"}, {"/v1/models/upper/unload", "root", 404, "The model `upper` does not exist."},
		{"/v1/models/demo/delete", "root", 404, "unknown_path"}, {"/v1/models/load", "root", 404, "The model `` does not exist."},
	} {
		w := do(f, http.MethodPost, c.path, "", "Authorization", "Bearer "+c.key)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s by %q: %d %s", c.path, c.key, w.Code, w.Body)
		}
	}
	if len(asked) != 4 || asked[0].Model != "org/upper" || asked[0].Unload || !asked[1].Unload || asked[2].Model != "demo" {
		t.Errorf("asked %+v", asked)
	}
	for _, keys := range [][]string{nil, {"user"}} {
		f, _ := newPool(t, Config{Keys: ring(t, keys...)}, models, served, nil)
		w := do(f, http.MethodPost, "/v1/models/demo/load", "", "Authorization", "Bearer user")
		if w.Code != 403 || !strings.Contains(w.Body.String(), "write @admin behind a key in the file of --api-key-file") || !strings.Contains(w.Body.String(), `"code":"admin_key_required"`) {
			t.Errorf("keys %v: %d %s", keys, w.Code, w.Body)
		}
	}
}

// TestSetModels holds that models may change while requests go on, that tokenizers are shared and closed, and
// what a wrong set is refused for.
func TestSetModels(t *testing.T) {
	opened, closed := 0, 0
	model := func(name, key string) registry.Model {
		open := textOf(byteTokenizer{}, &opened)
		return registry.Model{Name: name, TextKey: key, Open: func() (*text.Text, error) {
			text, err := open()
			text.Close = func() { closed++ }
			return text, err
		}}
	}
	served := []wire.Served{clienttest.Served("a", byteVocab), clienttest.Served("b", byteVocab), clienttest.Served("c", byteVocab)}
	f, _ := newPool(t, Config{MaxTokenizers: 1}, []registry.Model{model("a", "same"), model("b", "same")}, served, say("Y", engine.FinishLength))
	status := func(name string) int {
		return do(f, http.MethodPost, "/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"a"}`, name)).Code
	}
	if status("a") != 200 || status("b") != 200 || status("c") != 404 || opened != 1 {
		t.Errorf("a is answered %d, b %d, c %d; %d tokenizers were opened", status("a"), status("b"), status("c"), opened)
	}
	if err := f.SetModels([]registry.Model{model("b", "same"), model("c", "")}); err != nil {
		t.Fatal(err)
	}
	if status("a") != 404 || status("b") != 200 || status("c") != 200 || opened != 2 || closed != 1 {
		t.Errorf("then a %d, b %d, c %d; %d opened, %d closed", status("a"), status("b"), status("c"), opened, closed)
	}
	other := registry.Model{Name: "c", Open: textOf(upperTokenizer{}, &opened)}
	if err := f.SetModels([]registry.Model{model("b", "same"), other}); err != nil || status("c") != 200 || opened != 3 {
		t.Errorf("a model with another tokenizer: %v, %d opened", err, opened)
	}
	if w := do(f, http.MethodPost, "/tokenize", `{"model":"c","prompt":"a"}`); !strings.Contains(w.Body.String(), `"tokens":[65]`) {
		t.Errorf("its old tokenizer reads: %s", w.Body)
	}
	for want, models := range map[string][]registry.Model{
		"no model is to be served": nil, "no served model name": {{Name: ""}},
		"the models a and b are both to be served as x": {{Name: "a", Names: []string{"x"}}, {Name: "b", Names: []string{"x"}}},
	} {
		if err := f.SetModels(models); err == nil || !strings.Contains(err.Error(), want) || status("c") != 200 {
			t.Errorf("got %v, want %q; c is answered %d", err, want, status("c"))
		}
	}
}

// TestModelTakenOut: requests that wait for a model which is served no longer are refused at once, and others go on.
func TestModelTakenOut(t *testing.T) {
	served := []wire.Served{clienttest.Served("a", byteVocab), clienttest.Served("b", byteVocab)}
	models := []registry.Model{{Name: "a", Open: textOf(byteTokenizer{}, new(int))}, {Name: "b", Open: textOf(byteTokenizer{}, new(int))}}
	answered := make(chan struct{})
	f, _ := newPool(t, Config{}, models, served, func(m *wire.Submit) []*wire.Result {
		if m.Model == "a" {
			return nil
		}
		<-answered
		return say("Y", engine.FinishLength)(m)
	})
	codes := make(map[string]chan string)
	for _, name := range []string{"a", "b"} {
		code := make(chan string, 1)
		codes[name] = code
		go func() { // ends with its answer
			w := do(f, http.MethodPost, "/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"a"}`, name))
			code <- fmt.Sprint(w.Code, w.Body)
		}()
	}
	for open := 0; open < 2; open, _ = f.pool.Jobs() {
		time.Sleep(time.Millisecond)
	}
	if err := f.SetModels(models[1:]); err != nil {
		t.Fatal(err)
	}
	if got := <-codes["a"]; !strings.Contains(got, "503") || !strings.Contains(got, `model \"a\" was taken out`) {
		t.Errorf("a is answered %s", got)
	}
	close(answered)
	if got := <-codes["b"]; !strings.HasPrefix(got, "200") {
		t.Errorf("b is answered %s", got)
	}
}

// TestThousandModels holds that many models cost a request nothing, and the lists little.
func TestThousandModels(t *testing.T) {
	models, served := []registry.Model{demo(byteTokenizer{})}, []wire.Served{clienttest.Served("demo", byteVocab)}
	for i := range 999 {
		name := fmt.Sprintf("org/model-%d", i)
		models, served = append(models, registry.Model{Name: name}), append(served, clienttest.Served(name, 9))
		served[i+1].State, served[i+1].Loaded = wire.ModelAbsent, 0
	}
	many, _ := newPool(t, Config{}, models, served, say("Y", engine.FinishLength))
	one, _ := newPool(t, Config{}, models[:1], served[:1], say("Y", engine.FinishLength))
	fastest := func(f *Frontend, times int, method, path, body string) time.Duration {
		least := time.Hour
		for range times {
			begun := time.Now()
			if w := do(f, method, path, body); w.Code != 200 {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
			least = min(least, time.Since(begun))
		}
		return least
	}
	const body = `{"model":"demo","prompt":"a","max_tokens":1}`
	few, lots := fastest(one, 200, http.MethodPost, "/v1/completions", body), fastest(many, 200, http.MethodPost, "/v1/completions", body)
	if lots > 2*few+50*time.Microsecond {
		t.Errorf("a request takes %v among 1,000 models, and %v alone", lots, few)
	}
	list, ready, page := fastest(many, 10, http.MethodGet, "/v1/models", ""), fastest(many, 10, http.MethodGet, "/ready", ""), fastest(many, 10, http.MethodGet, "/metrics", "")
	// The race detector, which runs the short tests, slows these down tenfold.
	if !testing.Short() && (list > 20*time.Millisecond || ready > 10*time.Millisecond || page > 200*time.Millisecond) {
		t.Errorf("/v1/models takes %v, /ready %v, /metrics %v", list, ready, page)
	}
	t.Logf("a request %v among 1,000 models, %v alone; /v1/models %v, /ready %v, /metrics %v", lots, few, list, ready, page)
	if size := do(many, http.MethodGet, "/metrics", "").Body.Len(); size > 2<<20 {
		t.Errorf("/metrics has %d bytes", size)
	}
	if n := strings.Count(do(many, http.MethodGet, "/v1/models", "").Body.String(), `"object":"model"`); n != 1001 {
		t.Errorf("%d models are listed", n)
	}
}
