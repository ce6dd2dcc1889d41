package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// execute runs a command and returns what it printed.
func execute(t *testing.T, command *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	command.SetOut(&out)
	command.SetErr(io.Discard)
	command.SetArgs(args)
	err := command.Execute()
	return out.String(), err
}

// scorer is an OpenAI-compatible server that knows one key.
func scorer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer sesame":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"demo"}]}`)
		default:
			fmt.Fprint(w, `{"usage":{"prompt_tokens":10}}`)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestBenchServeReplaysItsOwnTrace(t *testing.T) {
	server, folder := scorer(t), t.TempDir()
	key, trace, first, second := filepath.Join(folder, "key"), filepath.Join(folder, "t.jsonl"), filepath.Join(folder, "1.csv"), filepath.Join(folder, "2.csv")
	if err := os.WriteFile(key, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	common := []string{"serve", "--base-url", server.URL, "--api-key-file", key}
	out, err := execute(t, newBenchCommand(), append(common, "--scale", "0.01", "--scale-users", "0.1", "--request-rate", "1000", "--save-trace", trace, "--csv", first)...)
	if err != nil || !strings.Contains(out, "100 in ") || !strings.Contains(out, " 0 failed") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err = execute(t, newBenchCommand(), append(common, "--workload", trace, "--num-prompts", "30", "--csv", second)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for path, lines := range map[string]int{first: 101, second: 31} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n != lines {
			t.Errorf("%s has %d lines, want %d", filepath.Base(path), n, lines)
		}
	}
}

func TestBenchSweepAndPlot(t *testing.T) {
	server, folder := scorer(t), t.TempDir()
	key, points := filepath.Join(folder, "key"), filepath.Join(folder, "s.csv")
	if err := os.WriteFile(key, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, newBenchCommand(), "sweep", "--base-url", server.URL, "--api-key-file", key, "--scale", "0.001", "--num-prompts", "20", "--saturation", "500", "--csv", points)
	if err != nil || strings.Count(out, "req/s sent") != 6 {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := execute(t, newBenchCommand(), "plot", points, "--out", folder); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(folder, "post-recommendation-p99.svg")); err != nil {
		t.Error(err)
	}
}

func TestBenchSaysWhatIsWrong(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(bad, []byte(`{"at":0,"prompt":"x"}`+"\n"+`{"at":1,"prompt":7}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--base-url", "http://127.0.0.1:1"}, "no server answers at http://127.0.0.1:1"},
		{[]string{"--base-url", "localhost:8000"}, "not of the form http://host:port"},
		{[]string{"--request-rate", "0"}, "request rate 0 is impossible"},
		{[]string{"--request-rate", "fast"}, "neither a number"},
		{[]string{"--workload", "posts"}, `unknown workload "posts"`},
		{[]string{"--workload", bad}, "bad.jsonl:2: "},
		{[]string{"--vocabulary", "5"}, "LOW:HIGH"},
		{[]string{"--scale", "-1"}, "token scale -1"},
		{[]string{"--api-key-file", "/nonexistent"}, "read the API key"},
	} {
		_, err := execute(t, newBenchCommand(), append([]string{"serve"}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.args, err, c.want)
		}
	}
}

func TestSimulateWritesTheTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.csv")
	if _, err := execute(t, newSimulateCommand(), "table-5.2", "--csv", path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "machine,model,method,max_tokens,paper_tokens\nL4,Llama-3.1-8B,paged-attention,") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"figure-5.8"}, "unknown experiment"},
		{[]string{"figure-5.3", "--csv", path}, "table-5.2 alone"},
		{[]string{"table-5.2", "--repeats", "0"}, "repeats 0"},
	} {
		if _, err := execute(t, newSimulateCommand(), c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.args, err, c.want)
		}
	}
}
