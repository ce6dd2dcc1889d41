package field

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"testing"
)

// gzipped is text as gzip has it.
func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func TestRequestsThatWereOdd(t *testing.T) {
	echo := of(generator, `"prompt":"hi","max_tokens":0,"echo":true`)
	hi := map[string]string{"choices.0.text": `"hi"`}
	run(t, []row{
		{
			saw: "an unknown model's name was a server error", thread: several, path: completions, body: of("gpt-4", `"prompt":"hi"`), status: 404,
			want: map[string]string{"error.code": `"model_not_found"`, "error.param": `"model"`}, check: says("gpt-4"),
		},
		{
			saw: "no model's name went to any of several", thread: several, path: completions, body: `{"prompt":"hi"}`, status: 400, want: map[string]string{"error.param": `"model"`},
		},
		{
			saw: "an unknown model's page was 200 with nothing", thread: several, method: "GET", path: "/v1/models/gpt-4", status: 404, want: map[string]string{"error.code": `"model_not_found"`},
		},
		{
			saw: "a model's own page was 404", thread: several, method: "GET", path: "/v1/models/" + reranker, status: 200, want: map[string]string{"id": `"reranker"`, "object": `"model"`},
		},
		{
			saw: "an unknown path was a page of HTML", thread: several, path: "/v1/nothing", body: `{}`, status: 404, want: map[string]string{"error.code": `"unknown_path"`},
		},
		{
			saw: "GET where POST belongs was a server error", thread: several, method: "GET", path: completions, status: 405, want: map[string]string{"error.code": `"method_not_allowed"`},
			check: func(t *testing.T, a *answer) {
				if got := a.header.Get("Allow"); !strings.Contains(got, "POST") {
					t.Errorf("Allow: %q", got)
				}
			},
		},
		{saw: "HEAD of the models was 405", thread: several, method: "HEAD", path: "/v1/models", status: 200},
		{saw: "OPTIONS without CORS was 200 with nothing", thread: several, method: "OPTIONS", path: completions, status: 405, want: map[string]string{"error.code": `"method_not_allowed"`}},
		{saw: "HEAD of the health page was 405, and a balancer took the server out", thread: several, method: "HEAD", path: "/health", status: 200},
		{
			saw: "a form's content type was a server error", thread: several, path: completions, header: "Content-Type: multipart/form-data; boundary=x", body: "--x--", status: 415,
			want: map[string]string{"error.code": `"unsupported_media_type"`},
		},
		{saw: "a charset in the content type was refused", thread: several, path: completions, header: "Content-Type: application/json; charset=utf-8", body: echo, status: 200, want: hi},
		{
			saw: "a gzip body was read as JSON", thread: several, path: completions, header: "Content-Encoding: gzip", body: gzipped(echo), status: 415,
			want: map[string]string{"error.code": `"unsupported_content_encoding"`}, check: says("gzip", "without"),
		},
		{
			saw: "tensors in gzip were read as they are", thread: several, path: "/v2/models/adder/infer", header: "Content-Encoding: gzip",
			body: gzipped(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}`), status: 200, want: map[string]string{"outputs.0.data": `[2,4,6,8]`},
		},
		{
			saw: "a body that only claims to be gzip was a server error", thread: several, path: "/v2/models/adder/infer", header: "Content-Encoding: gzip",
			body: `{"inputs":[]}`, status: 400, check: says("gzip"),
		},
		{
			saw: "an unknown encoding was read as none", thread: several, path: completions, header: "Content-Encoding: x-unknown", body: echo, status: 415,
		},
		{saw: "an empty body was a server error", thread: several, path: completions, body: "", status: 400, want: map[string]string{"error.code": `"invalid_json"`}},
		{saw: "a body of null was a server error", thread: several, path: completions, body: "null", status: 400},
		{saw: "a body that is a list was a server error", thread: several, path: completions, body: "[" + echo + "]", status: 400},
		{saw: "a body cut in two was a server error", thread: several, path: completions, body: echo[:len(echo)-3], status: 400, want: map[string]string{"error.code": `"invalid_json"`}},
		{saw: "a second body behind the first was passed over", thread: several, path: completions, body: echo + echo, status: 400, want: map[string]string{"error.code": `"invalid_json"`}},
		{saw: "a body nested 100,000 deep overflowed the stack", thread: several, path: completions, body: `{"prompt":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + "}", status: 400},
		{saw: "bytes that are no UTF-8 were other characters of the prompt, without a word", thread: several, path: completions, body: of(generator, "\"prompt\":\"a\xffb\",\"max_tokens\":0"), status: 400, want: map[string]string{"error.code": `"invalid_json"`}, check: says("not UTF-8", "at byte")},
		{saw: "a byte order mark before the JSON was a riddle", thread: several, path: completions, body: "\ufeff" + echo, status: 400, want: map[string]string{"error.code": `"invalid_json"`}},
		{saw: "a field that is there twice was taken from the first for one check and from the last for the next", thread: several, path: completions, body: of(generator, `"prompt":"hi","prompt":"ho","max_tokens":0,"echo":true`), status: 400, check: says("prompt")},
		{saw: "a count written as 2.0 was refused without saying why", thread: several, path: completions, body: of(generator, `"prompt":"hi","max_tokens":2.0`), status: 400, check: says("max_tokens", "integer", "2.0")},
		{saw: "null for a field with a default was refused", thread: several, path: completions, body: of(generator, `"prompt":"hi","max_tokens":0,"echo":true,"temperature":null,"stop":null,"logit_bias":null,"n":null,"seed":null,"user":null,"stream":null`), status: 200, want: hi},
		{saw: "a truth value as text was taken for true", thread: several, path: completions, body: of(generator, `"prompt":"hi","max_tokens":1,"stream":"false"`), status: 400, want: map[string]string{"error.param": `"stream"`}},
		{saw: "the adapter that was asked for was passed over without a word", thread: several, path: completions, body: of(generator, `"prompt":"hi","max_tokens":1,"lora_request":{"name":"a"}`), status: 400, want: map[string]string{"error.param": `"lora_request"`}},
		{
			saw: "metrics lacked the model's name or the type", thread: several, method: "GET", path: "/metrics", status: 200,
			check: func(t *testing.T, a *answer) {
				says("# TYPE vllm:e2e_request_latency_seconds histogram", "# TYPE vllm:num_requests_running gauge")(t, a)
				if !regexp.MustCompile(`(?m)^vllm:prompt_tokens_total\{([^}]*,)?model_name="prefillonly-demo"[,}]`).MatchString(a.text) {
					t.Error("vllm:prompt_tokens_total has no model's name")
				}
			},
		},
	})
}

// TestConnectionsStayAfterARefusal: a client whose request is refused sends the next one on the same connection.
func TestConnectionsStayAfterARefusal(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for i, body := range []string{`{"prompt":`, of("gpt-4", `"prompt":"a"`), of(generator, `"prompt":"hi","max_tokens":0,"echo":true`)} {
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, base(t)+completions, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		_, _ = text.ReadFrom(response.Body)
		_ = response.Body.Close()
		if want := []int{400, 404, 200}[i]; response.StatusCode != want || reused != (i > 0) {
			t.Errorf("request %d: %d, want %d; on the connection of the one before: %t: %s", i, response.StatusCode, want, reused, &text)
		}
	}
}
