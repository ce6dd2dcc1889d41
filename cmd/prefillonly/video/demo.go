package video

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/dirlock"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/scene"
)

// process is a process of the demo.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// demo is one run of `video demo`.
type demo struct {
	out      io.Writer
	port     int
	clip     string
	detector string
	decoder  string
	method   string
	quiet    bool // open no browser

	dir      string
	lock     *os.File   // of dir, which children hold too: they may end after this process
	children []*process // the last one first
	ended    chan error // gets how each of them ended
	client   http.Client
}

func newDemoCommand() *cobra.Command {
	d := &demo{}
	command := &cobra.Command{
		Use:   "demo",
		Short: "Show a video stream in the browser, with everything it needs",
		Long: `Starts a server on this machine, a camera's program that streams to it by DDS, and the page that shows what is found. The
video is a street that the program draws by itself, and the network one that was trained on such streets; codec, network, server and
protocol are those of real use. A clip of your own wants a network of your own: the small one knows drawn streets alone.
Ctrl-C ends all of it and leaves nothing behind; of a demo that was killed, the next one removes what is left.`,
		Args: cobra.NoArgs,
		Example: `  prefillonly video demo                                    the page is at http://127.0.0.1:8000/video
  prefillonly video demo --port 0 --method mpeg:qp=30       on a free port, in one quality
  prefillonly video demo --clip street.mp4 --detector yolox_nano.onnx --decoder yolox`,
		RunE: func(command *cobra.Command, _ []string) error {
			d.out = command.OutOrStdout()
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return d.run(ctx)
		},
	}
	flags := command.Flags()
	flags.IntVar(&d.port, "port", 8000, "port of the server; 0 takes a free one")
	flags.StringVar(&d.clip, "clip", "", "video file to stream instead of the drawn street")
	flags.StringVar(&d.detector, "detector", "", "ONNX file of the detector to use instead of the small one")
	flags.StringVar(&d.decoder, "decoder", "fastestdet", "decoder of the detector's outputs, as for prefillonly video detect")
	flags.StringVar(&d.method, "method", "dds:low=38,high=24,frames=10,objectness=0.2,sure=0.6", "how the camera streams")
	flags.BoolVar(&d.quiet, "no-browser", false, "do not open a browser")
	return command
}

func (d *demo) run(ctx context.Context) (err error) {
	runtime.LockOSThread() // children end with the thread that started them
	defer runtime.UnlockOSThread()
	program, err := pipe.Find()
	if err != nil {
		return err
	}
	if d.dir, d.lock, err = dirlock.Temp(os.TempDir(), "prefillonly-demo-"); err != nil {
		return err
	}
	defer d.lock.Close()
	defer os.RemoveAll(d.dir)
	d.ended = make(chan error, 2)
	defer d.stop()
	if d.clip == "" {
		fmt.Fprintln(d.out, "drawing a street ...")
		d.clip = filepath.Join(d.dir, "street.ivf")
		err := cli.WriteFile(d.clip, func(f *os.File) error {
			return WriteClip(ctx, program, f, clipRate, Drawing{Seed: 1, Frames: clipSeconds * clipRate, Step: time.Second / clipRate})
		})
		if err != nil {
			return ignoreCancelled(ctx, err)
		}
	}
	fmt.Fprintln(d.out, "starting the server ...")
	base, err := d.serve(ctx)
	if err != nil {
		return ignoreCancelled(ctx, err)
	}
	rate, err := d.declareStream(ctx, base)
	if err != nil {
		return ignoreCancelled(ctx, err)
	}
	if err := d.startChild(program, "run", "--server", base, "--stream", "street", "--source", d.clip, "--loop", "--rate", strconv.Itoa(rate)); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "The page is at %s/video. Ctrl-C ends the demo.\n", base)
	if !d.quiet {
		openBrowser(base + "/video")
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.ended:
		return fmt.Errorf("a process of the demo has ended: %w", err)
	}
}

func ignoreCancelled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// The drawn clip: it is played again and again.
const clipRate, clipSeconds = 10, 20

// serve starts the server, waits until it is ready, and returns its URL.
func (d *demo) serve(ctx context.Context) (base string, err error) {
	config := filepath.Join(d.dir, "demo.yaml")
	network, err := filepath.Abs(d.detector)
	if d.detector == "" {
		network = filepath.Join(d.dir, "street.onnx")
		err = os.WriteFile(network, scene.Detector, 0o600)
	}
	if err != nil {
		return "", err
	}
	text := "models:\n- {path: " + strconv.Quote(network) + ", name: detector, keep: always, decoder: " + strconv.Quote(d.decoder) + "}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", err
	}
	if d.port == 0 {
		if d.port, err = cli.UnusedPort(); err != nil {
			return "", err
		}
	}
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	err = d.startChild(own, "serve", "--config", config, "--port", strconv.Itoa(d.port), "--log-level", "warn", "--access-log=false", "--drain-timeout", "1s", "--runtime-dir", filepath.Join(d.dir, "run"))
	if err != nil {
		return "", err
	}
	base = "http://127.0.0.1:" + strconv.Itoa(d.port)
	for {
		if err := d.sendRequest(ctx, http.MethodGet, base+"/ready", ""); err == nil {
			return base, nil
		}
		if err := d.wait(ctx, 100*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// declareStream adds the camera's stream, with as many frames in a second as the server takes from a slow or busy machine. A 503 is asked
// again when its Retry-After has passed: the server's processes come one by one.
func (d *demo) declareStream(ctx context.Context, base string) (rate int, err error) {
	giveUp := time.Now().Add(startPatience)
	for rate = clipRate; ; {
		body := fmt.Sprintf(`{"name":"street","model":"detector","source":"camera","score":0.5,"deadline_ms":2000,"method":%q,"rate":%d}`, d.method, rate)
		err = d.sendRequest(ctx, http.MethodPost, base+"/v1/video/streams", body)
		var refused *refusal
		switch {
		case !errors.As(err, &refused):
			return rate, err
		case refused.status == http.StatusTooManyRequests && rate >= 2:
			fmt.Fprintf(d.out, "%d frames a second are too many for this machine now\n", rate)
			rate /= 2
		case refused.retryAfter > 0 && time.Now().Add(refused.retryAfter).Before(giveUp):
			if err := d.wait(ctx, refused.retryAfter); err != nil {
				return 0, err
			}
		default:
			return rate, err
		}
	}
}

// startPatience bounds the wait for a server that answers, and says 503.
const startPatience = time.Minute

// wait waits for a while, unless ctx or the server ends.
func (d *demo) wait(ctx context.Context, while time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-d.ended:
		return fmt.Errorf("the server has ended: %w", err)
	case <-time.After(while):
		return nil
	}
}

// refusal is an answer that is none of success.
type refusal struct {
	status     int
	retryAfter time.Duration // 0: another try is not asked for
	said       string
}

func (r *refusal) Error() string { return r.said }

func (d *demo) sendRequest(ctx context.Context, method, url, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	answer, err := d.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		r := &refusal{status: answer.StatusCode, said: fmt.Sprintf("%s %s: %s: %s", method, url, answer.Status, text)}
		if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && r.status == http.StatusServiceUnavailable {
			r.retryAfter = time.Duration(seconds) * time.Second
		}
		return r
	}
	return nil
}

// startChild starts a child in a process group of its own, which Ctrl-C does not reach; it ends with this process, however that ends.
func (d *demo) startChild(program string, args ...string) error {
	c := exec.Command(program, args...)
	c.Stderr, c.ExtraFiles = os.Stderr, []*os.File{d.lock}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.Start(); err != nil {
		return err
	}
	child := &process{c, make(chan struct{})}
	go func() { // ends with the child
		err := c.Wait()
		d.ended <- fmt.Errorf("%s %s: %v", filepath.Base(program), args[0], err)
		close(child.done)
	}()
	d.children = append([]*process{child}, d.children...)
	return nil
}

// stop ends the children, the camera first.
func (d *demo) stop() {
	for _, c := range d.children {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		stuck := time.AfterFunc(20*time.Second, func() { _ = c.cmd.Process.Kill() })
		<-c.done
		stuck.Stop()
	}
	d.client.CloseIdleConnections()
}

// openBrowser opens a page where there is a screen; the URL is printed anyway.
func openBrowser(url string) {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	if c := exec.Command("xdg-open", url); c.Start() == nil {
		go func() { _ = c.Wait() }() // ends with xdg-open
	}
}
