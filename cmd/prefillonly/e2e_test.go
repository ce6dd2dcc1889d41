package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/procfs"
)

// beProgram makes the test binary run main, so that the processes under test are real ones.
const beProgram = "BE_PREFILLONLY"

func TestMain(m *testing.M) {
	if os.Getenv(beProgram) != "" {
		injectFaults()
		injectGPUs()
		main()
		os.Exit(0)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // under nohup the servers would inherit that it is ignored
	os.Exit(runTests(m))
}

// runTests keeps the profiles of networks, which a busy machine makes wrong, from the user's cache and from there.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "prefillonly-cache-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("CACHE_DIRECTORY", dir); err != nil {
		panic(err)
	}
	return m.Run()
}

// program is a running prefillonly.
type program struct {
	testing.TB
	cmd  *exec.Cmd
	base string // URL
	done chan struct{}

	starting, ready chan struct{} // closed when serve says so; base is set before the first

	mu  sync.Mutex
	log strings.Builder // guarded by mu
}

func command(env []string, args ...string) *exec.Cmd {
	return commandContext(context.Background(), env, args...)
}

// commandContext is a command that is killed when ctx ends.
func commandContext(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), beProgram+"=1")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// serve starts `prefillonly serve` on a free port and waits until it is ready.
func serve(t testing.TB, env []string, args ...string) *program {
	t.Helper()
	p := start(t, env, args...)
	p.within("ready", p.ready)
	return p
}

// within waits until serve says something.
func (p *program) within(what string, said <-chan struct{}) {
	p.Helper()
	select {
	case <-said:
	case <-p.done:
		p.Fatalf("serve ended: %v", p.cmd.ProcessState)
	case <-time.After(2 * time.Minute):
		p.Fatalf("serve is not %s after 2 minutes", what)
	}
}

// start starts `prefillonly serve` on a free port and waits until the port is known.
func start(t testing.TB, env []string, args ...string) *program {
	t.Helper()
	p := &program{TB: t, done: make(chan struct{}), starting: make(chan struct{}), ready: make(chan struct{}), cmd: command(append([]string{"TMPDIR=" + t.TempDir()}, env...), append([]string{"serve", "--port", "0", "--log-format", "json", "--access-log=false", "--kv-cache-memory-bytes", "16MiB"}, args...)...)} // a killed server leaves its runtime directory
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.log.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
			var line struct{ Msg, URL, Logger string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Logger == "serve" {
				switch line.Msg {
				case "starting":
					p.base = line.URL
					close(p.starting)
				case "ready":
					close(p.ready)
				}
			}
		}
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Log(p.logged())
		}
	})
	p.within("starting", p.starting)
	return p
}

func (p *program) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// wait returns the exit code.
func (p *program) wait(limit time.Duration) int {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.Fatalf("serve still runs after %v", limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// child returns the process id of a child by its role or its name.
func (p *program) child(role string) int {
	for _, child := range procfs.Children(p.cmd.Process.Pid) {
		if slices.Contains(child.Args[1:], role) {
			return child.PID
		}
	}
	return 0
}

// strike sends a child a signal that ends it, and waits for its successor.
func (p *program) strike(role string, sig syscall.Signal) {
	p.Helper()
	old := p.child(role)
	if old == 0 {
		p.Fatalf("no %s is running", role)
	}
	if err := syscall.Kill(old, sig); err != nil {
		p.Fatal(err)
	}
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if pid := p.child(role); pid != 0 && pid != old {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("the %s was not started again after %v", role, sig)
		}
	}
}

// complete asks for n tokens after prompt and returns the status and the body.
func (p *program) complete(client *http.Client, prompt string, n int) (int, string, error) {
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"temperature":0,"logprobs":1}`, prompt, n)
	if n > 1 { // no token that would end the answer before n
		body = fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"temperature":0,"allowed_token_ids":[300,301]}`, prompt, n)
	}
	response, err := client.Post(p.base+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	return response.StatusCode, readAll(p, response), nil
}

func readAll(t testing.TB, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// TestKilledProcesses kills executor, scheduler, executor in turn under eight clients: every request
// gets its 200, with the answer it gets in peace.
func TestKilledProcesses(t *testing.T) {
	for _, device := range []string{"null", "cpu"} {
		t.Run(device, func(t *testing.T) {
			p := serve(t, nil, "--device", device)
			client := &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
			choices := regexp.MustCompile(`"choices":.*"finish_reason"`)
			want := map[string]string{}
			for i := range 8 {
				prompt := fmt.Sprintf("The user %d likes", i)
				status, text, err := p.complete(client, prompt, 1)
				if err != nil || status != 200 {
					t.Fatalf("in peace: %d %s %v", status, text, err)
				}
				want[prompt] = choices.FindString(text)
			}
			var stop atomic.Bool
			var answered atomic.Int64
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					prompt := fmt.Sprintf("The user %d likes", i)
					for !stop.Load() {
						status, text, err := p.complete(client, prompt, 1)
						if err != nil || status != 200 || choices.FindString(text) != want[prompt] {
							t.Errorf("client %d: %d %s %v, want 200 and %s", i, status, text, err, want[prompt])
							return
						}
						answered.Add(1)
					}
				})
			}
			for _, role := range []string{"executor", "scheduler", "executor", "scheduler"} {
				time.Sleep(200 * time.Millisecond)
				p.strike(role, syscall.SIGKILL)
				for before := answered.Load(); answered.Load() < before+16 && !t.Failed(); { // it serves again
					time.Sleep(10 * time.Millisecond)
				}
			}
			stop.Store(true)
			wg.Wait()
			t.Logf("%d requests answered", answered.Load())
		})
	}
}

// TestKilledFrontend: its requests are lost with it, the port is not.
func TestKilledFrontend(t *testing.T) {
	p := serve(t, nil, "--device", "null")
	p.strike("frontend", syscall.SIGKILL)
	if status, text, err := p.complete(http.DefaultClient, "Hello", 1); err != nil || status != 200 {
		t.Errorf("after the frontend's restart: %d %s %v", status, text, err)
	}
}

// waitLoad waits until a request is being served.
func (p *program) waitLoad() {
	p.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		response, err := http.Get(p.base + "/load")
		if err != nil {
			p.Fatal(err)
		}
		if strings.Contains(readAll(p, response), `"server_load":1`) {
			return
		}
	}
	p.Fatal("no request came in")
}

func wantGone(t *testing.T, kids []procfs.Process) {
	t.Helper()
	if len(kids) != 3 {
		t.Errorf("serve had the children %v, want 3", kids)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		alive := 0
		for _, child := range kids {
			if now, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child.PID)); err == nil && string(now) == strings.Join(child.Args, "\x00")+"\x00" {
				alive++
			}
		}
		if alive == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %v live on", alive, kids)
		}
	}
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	p := serve(t, nil)
	kids := procfs.Children(p.cmd.Process.Pid)
	go func() { _, _, _ = p.complete(http.DefaultClient, "Once", 6000) }()
	p.waitLoad()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	for !strings.Contains(p.logged(), `"msg":"draining","signal"`) { // else the two signals are one
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.wait(5 * time.Second); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d, want %d", code, 128+int(syscall.SIGTERM))
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("stopping took %v", took)
	}
	wantGone(t, kids)
}

func TestNoOrphans(t *testing.T) {
	p := serve(t, nil, "--device", "null")
	kids := procfs.Children(p.cmd.Process.Pid)
	_ = p.cmd.Process.Kill()
	wantGone(t, kids)
}

// TestSecretsStayWithTheFrontend: a key is in no command line and in no other process's environment.
func TestSecretsStayWithTheFrontend(t *testing.T) {
	const key = "sk-very-secret"
	p := serve(t, []string{"PREFILLONLY_API_KEY=" + key}, "--device", "null")
	if status, _, _ := p.complete(http.DefaultClient, "Hello", 1); status != 401 {
		t.Errorf("without the key: %d, want 401", status)
	}
	for _, child := range procfs.Children(p.cmd.Process.Pid) {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", child.PID))
		if err != nil {
			t.Fatal(err)
		}
		isFrontend := child.Args[1] == "frontend"
		if strings.Contains(strings.Join(child.Args, " "), key) || bytes.Contains(environ, []byte(key)) != isFrontend {
			t.Errorf("process %q: key in its environment: %v", child.Args, bytes.Contains(environ, []byte(key)))
		}
	}
}

// notified listens for what a server tells systemd.
type notified struct {
	*testing.T
	socket *net.UnixConn
	env    []string // of a server with a watchdog of 0.3 s
}

func listenAsSystemd(t *testing.T) *notified {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return &notified{t, socket, []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=300000"}}
}

// next returns what is told within a time; empty for nothing.
func (n *notified) next(within time.Duration) string {
	buf := make([]byte, 1000)
	_ = n.socket.SetReadDeadline(time.Now().Add(within))
	size, err := n.socket.Read(buf)
	if err != nil {
		return ""
	}
	return string(buf[:size])
}

// expect waits until something is told.
func (n *notified) expect(want string) {
	n.Helper()
	for {
		switch said := n.next(30 * time.Second); {
		case said == "":
			n.Fatalf("no %s", want)
		case strings.Contains(said, want):
			return
		}
	}
}

func TestSystemd(t *testing.T) {
	n := listenAsSystemd(t)
	p := serve(t, n.env, "--device", "null")
	n.expect("READY=1")
	n.expect("WATCHDOG=1")
	n.expect("WATCHDOG=1")
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	n.expect("STOPPING=1")
	if code := p.wait(10 * time.Second); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// TestWatchdogSeesAHang: where serve itself may not start a hung frontend again, systemd hears that the
// server is not well.
func TestWatchdogSeesAHang(t *testing.T) {
	n := listenAsSystemd(t)
	p := serve(t, n.env, "--device", "null", "--hang-timeout", "0")
	n.expect("WATCHDOG=1")
	frontend := p.halt("frontend")
	for deadline := time.Now().Add(40 * time.Second); n.next(2*time.Second) != ""; {
		if time.Now().After(deadline) {
			t.Fatal("the watchdog is fed beside a stopped frontend")
		}
	}
	_ = syscall.Kill(frontend, syscall.SIGCONT)
	n.expect("WATCHDOG=1")
}

// TestServeRefusesWhatCannotWork: what cannot work ends at once, with its exit code and a text that says what to do.
func TestServeRefusesWhatCannotWork(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	empty, gpt2 := t.TempDir(), t.TempDir()
	file := filepath.Join(gpt2, "config.json")
	if err := os.WriteFile(file, []byte(`{"architectures":["GPT2LMHeadModel"],"model_type":"gpt2","n_embd":768,"n_head":12,"n_layer":12,"vocab_size":50257}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  []string
		args []string
		code int
		want []string
	}{
		{"empty checkpoint", nil, []string{"serve", "--port", "0", "--model", empty}, cli.ExitConfig, []string{empty, "config.json"}},
		{"truncated weights", nil, []string{"serve", "--port", "0", "--model", truncated(t)}, cli.ExitConfig, []string{"model.safetensors"}},
		{"long directory", nil, []string{"serve", "--port", "0", "--runtime-dir", "/tmp/" + strings.Repeat("d", 90)}, cli.ExitConfig, []string{"--runtime-dir", "95 bytes", "at most 85"}},
		{"unknown model", []string{"HF_HUB_OFFLINE=1", "HF_HOME=" + empty}, []string{"serve", "--port", "0", "--model", "nobody/nothing"}, cli.ExitConfig, []string{"nobody/nothing", "HF_HUB_OFFLINE"}},
		{"no hub", []string{"HF_ENDPOINT=http://me:secret@127.0.0.1:1", "HF_HOME=" + empty}, []string{"serve", "--port", "0", "--model", "nobody/nothing"}, cli.ExitFailure, []string{"cannot reach 127.0.0.1:1"}},
		{"missing directory", nil, []string{"serve", "--port", "0", "--model", "./no/such"}, cli.ExitConfig, []string{"./no/such", "no such file", "want the directory of a checkpoint"}},
		{"a file", nil, []string{"serve", "--port", "0", "--model", file}, cli.ExitConfig, []string{file, "is a file, want the directory"}},
		{"gpt2", nil, []string{"serve", "--port", "0", "--model", gpt2}, cli.ExitConfig, []string{gpt2, "unsupported architecture [GPT2LMHeadModel], want one of Cohere2ForCausalLM, CohereForCausalLM, Ernie4_5ForCausalLM, GPTNeoXForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, GemmaForCausalLM, Glm4ForCausalLM, GlmForCausalLM, GraniteForCausalLM, LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, Olmo2ForCausalLM, Olmo3ForCausalLM, Phi3ForCausalLM, Qwen2ForCausalLM, Qwen2MoeForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, SmolLM3ForCausalLM, Starcoder2ForCausalLM"}},
		{"too little memory", nil, []string{"serve", "--port", "0", "--kv-cache-memory-bytes", "500TiB"}, cli.ExitMemory, []string{"available", "--max-model-len"}},
		{"unknown flag", nil, []string{"serve", "--prot", "1"}, cli.ExitUsage, []string{"--prot", "nearest is --port"}},
		{"bad value", nil, []string{"serve", "--port", "many"}, cli.ExitConfig, []string{"--port", "many"}},
		{"unknown variable", []string{"PREFILLONLY_PROT=1"}, []string{"serve"}, cli.ExitConfig, []string{"PREFILLONLY_PROT", "PREFILLONLY_PORT"}},
		{"key in argv", nil, []string{"serve", "--api-key", "k"}, cli.ExitUsage, []string{"--api-key-file", "PREFILLONLY_API_KEY"}},
		{"port in use", nil, []string{"serve", "--port", port}, cli.ExitFailure, []string{port, "--port"}},
		{"role without scheduler", nil, []string{"executor"}, cli.ExitConfig, []string{"--scheduler-endpoint"}},
		{"open tcp", nil, []string{"scheduler", "--scheduler-endpoint", "tcp://0.0.0.0:0"}, cli.ExitConfig, []string{"CURVE", "keygen"}},
		{"loopback tcp without keys", nil, []string{"scheduler", "--scheduler-endpoint", "tcp://127.0.0.1:0"}, cli.ExitConfig, []string{"forge answers", "keygen", "--allow-unauthenticated-tcp"}},
		{"executor without keys", nil, []string{"executor", "--scheduler-endpoint", "tcp://127.0.0.1:1"}, cli.ExitConfig, []string{"forge answers"}},
		{"unhealthy", nil, []string{"healthcheck", "--port", "1"}, cli.ExitFailure, []string{"refused"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			text, err := command(c.env, c.args...).CombinedOutput()
			exit, ok := err.(*exec.ExitError)
			if !ok || exit.ExitCode() != c.code {
				t.Errorf("%v, want exit code %d", err, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("the output lacks %q", want)
				}
			}
			if strings.HasPrefix(c.name, "missing") && strings.Contains(string(text), "download") {
				t.Error("it is suggested to download a directory")
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			if t.Failed() {
				t.Logf("%s", text)
			}
		})
	}
}

// truncated is the demo model with half of its weights' file.
func truncated(t *testing.T) string {
	t.Helper()
	dir := demoDir(t)
	file := filepath.Join(dir, "model.safetensors")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, info.Size()/2); err != nil {
		t.Fatal(err)
	}
	return dir
}
