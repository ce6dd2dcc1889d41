package field

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/encoder/encodertest"
)

// The models that are served.
const (
	generator = "prefillonly-demo"
	embedder  = "demo-embedder" // the demo model with sentence-transformers' files
	reranker  = "reranker"      // a random cross-encoder whose tokens are w0 to w49
	adder     = "adder"         // y = x + [1 2 3 4], of rows
	halves    = "halves"        // the same of FP16
)

// server is one for the whole package, started by the first test that needs it.
var server struct {
	once sync.Once
	url  string
	err  error
	stop func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.stop != nil {
		server.stop()
	}
	os.Exit(code)
}

// base is the server's address.
func base(t *testing.T) string {
	t.Helper()
	server.once.Do(func() { server.url, server.stop, server.err = start() })
	if server.err != nil {
		t.Fatal(server.err)
	}
	return server.url
}

// start builds and starts the program.
func start() (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "field-")
	if err != nil {
		return "", nil, err
	}
	clean := func() { _ = os.RemoveAll(dir) }
	binary := filepath.Join(dir, "prefillonly")
	if text, err := exec.Command("go", "build", "-o", binary, "../../cmd/prefillonly").CombinedOutput(); err != nil {
		return "", clean, fmt.Errorf("%w\n%s", err, text)
	}
	config, err := writeModels(dir)
	if err != nil {
		return "", clean, err
	}
	cmd := exec.Command(binary, "serve", "--port", "0", "--log-format", "json", "--access-log=false", "--kv-cache-memory-bytes", "16MiB", "--config", config)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	log, err := cmd.StderrPipe()
	if err != nil {
		return "", clean, err
	}
	if err := cmd.Start(); err != nil {
		return "", clean, err
	}
	ready, ended := make(chan string, 1), make(chan struct{})
	go func() { // ends with the program
		defer close(ended)
		follow(log, ready)
		_ = cmd.Wait()
	}()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		clean()
	}
	select {
	case url := <-ready:
		return url, stop, nil
	case <-ended:
		return "", stop, fmt.Errorf("the server ended before it was ready: %v", cmd.ProcessState)
	case <-time.After(time.Minute):
		return "", stop, errors.New("the server is not ready after a minute")
	}
}

// follow reads the log, and says where the server is when it is ready.
func follow(log io.Reader, ready chan<- string) {
	url := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct{ Level, Msg, URL, Logger string }
		switch err := json.Unmarshal(lines.Bytes(), &line); {
		case err != nil || line.Level == "error":
			fmt.Fprintln(os.Stderr, lines.Text())
		case line.Logger == "serve" && line.Msg == "starting":
			url = line.URL
		case line.Logger == "serve" && line.Msg == "ready":
			ready <- url
		}
	}
}

// writeModels writes the models, and the configuration that lists them.
func writeModels(dir string) (config string, err error) {
	path := func(name string) string { return filepath.Join(dir, name) }
	var list strings.Builder
	list.WriteString("models:\n")
	add := func(name, file string, e error) {
		err = errors.Join(err, e)
		fmt.Fprintf(&list, "- {name: %s, path: %q}\n", name, file)
	}
	add(generator, path(generator), os.CopyFS(path(generator), demo.FS()))
	add(embedder, path(embedder), errors.Join(os.CopyFS(path(embedder), demo.FS()),
		os.WriteFile(path(embedder+"/modules.json"), []byte(`[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
			{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
			{"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]`), 0o600),
		os.Mkdir(path(embedder+"/1_Pooling"), 0o700),
		os.WriteFile(path(embedder+"/1_Pooling/config.json"), []byte(`{"word_embedding_dimension":256,"pooling_mode_lasttoken":true}`), 0o600)))
	add(reranker, path(reranker), encodertest.Reranker(path(reranker)))
	add(adder, path("adder.onnx"), os.WriteFile(path("adder.onnx"), onnxtest.File(17, plus(onnxtest.Float32)), 0o600))
	add(halves, path("halves.onnx"), os.WriteFile(path("halves.onnx"), onnxtest.File(17, plus(onnxtest.Float16)), 0o600))
	if err != nil {
		return "", err
	}
	return path("config.yaml"), os.WriteFile(path("config.yaml"), []byte(list.String()), 0o600)
}

// plus is a network that adds 1, 2, 3 and 4 to the numbers of each row, which come as numbers of a type.
func plus(number int) onnxtest.Graph {
	return onnxtest.Graph{
		Inputs:    []onnxtest.Value{{Name: "x", Type: number, Dims: []any{"n", 4}}},
		Outputs:   []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: []any{"n", 4}}},
		Constants: []onnxtest.Tensor{onnxtest.Floats("c", []int{4}, 1, 2, 3, 4)},
		Nodes: []onnxtest.Node{
			{Op: "Cast", In: []string{"x"}, Out: []string{"f"}, Attrs: map[string]any{"to": onnxtest.Float32}},
			{Op: "Add", In: []string{"f", "c"}, Out: []string{"y"}},
		},
	}
}
