// Package top is `prefillonly top`: a server's queues, caches, devices and latencies on a terminal.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/gauges"
	"github.com/prefillonly/prefillonly/internal/usage"
)

// standard is where a server is when nothing is said of it.
const standard = "http://localhost:8000"

// snapshotWidth is what a snapshot has, which is on no screen.
const snapshotWidth = 180

// options are the command's.
type options struct {
	keyFile  string
	interval time.Duration
	once     bool
}

// New makes the command.
func New() *cobra.Command {
	o := options{interval: 2 * time.Second}
	command := &cobra.Command{
		Use:   "top [URL]",
		Short: "Watch a server on the terminal: queue, passes, prefix cache, devices, latencies",
		Long: `Shows what a server does, at http://localhost:8000 if nothing else is said, and does so again every two seconds: requests and jobs,
passes, tokens, and for each model its queue, percentiles of its latencies, hits in its prefix cache and how full that is; GPUs too. Rates
and percentiles are of the time between two readings, on the first screen since the server's start. A wider screen has more columns.

q ends it, a space reads anew at once. The API key of the server is read from --api-key-file, or from PREFILLONLY_API_KEY. NO_COLOR turns
colours off. With --once, or where the output is no terminal, it prints one reading as text.`,
		Example: `  prefillonly top
  prefillonly top http://gpu7:8000 --api-key-file key
  prefillonly top --once`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return o.run(command.Context(), command.OutOrStdout(), append(args, standard)[0])
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.keyFile, "api-key-file", "", "`FILE` whose first line is the API key")
	flags.DurationVar(&o.interval, "interval", o.interval, "time between two readings")
	flags.BoolVar(&o.once, "once", false, "print one reading as text, and end")
	usage.CompleteFlag(command, "api-key-file", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	usage.CompleteFlag(command, "interval", cobra.NoFileCompletions)
	command.ValidArgsFunction = cobra.NoFileCompletions
	return command
}

func (o *options) run(ctx context.Context, out io.Writer, address string) error {
	at, err := url.Parse(address)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return cli.UsageError("%q is no address of a server; it is as http://HOST:PORT", address)
	case at.User != nil:
		return cli.UsageError("a key in the address is seen by all users of this machine; give it by --api-key-file or PREFILLONLY_API_KEY")
	case o.interval < 100*time.Millisecond || o.interval > time.Hour:
		return cli.UsageError("--interval %v is not 100ms to 1h", o.interval)
	}
	key, err := apikey.Sent(o.keyFile, os.Getenv("PREFILLONLY_API_KEY"))
	if err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	s := newServer(address, key)
	if o.once || out != os.Stdout || !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("TERM") == "dumb" {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return snapshot(ctx, out, s)
	}
	return watch(ctx, s, o.interval)
}

// snapshot prints one reading.
func snapshot(ctx context.Context, out io.Writer, s *server) error {
	p := picture{server: s.base}
	r := s.read(ctx)
	if r.err != nil {
		return errors.New(cleanText(r.err.Error())) // it may have words of a stranger
	}
	p.takeReading(nil, &r)
	for _, l := range p.drawLines(snapshotWidth, 0) {
		if _, err := fmt.Fprintln(out, l.formatSpans(false)); err != nil {
			return err
		}
	}
	return nil
}

// takeReading makes the picture of a reading, and of the sample before it. Of one that failed it tells why, and keeps what was
// known before.
func (p *picture) takeReading(before *gauges.Sample, r *reading) {
	p.trouble = ""
	if r.err != nil {
		p.trouble = r.err.Error()
		return
	}
	p.healthy, p.reason, p.view = r.healthy, r.reason, gauges.Between(before, r.sample)
}

// watch shows readings until a key or a signal ends it.
func watch(ctx context.Context, s *server, every time.Duration) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH)
	defer signal.Stop(signals)
	t, err := openTerminal()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{terminal: t, colour: os.Getenv("NO_COLOR") == "", picture: picture{server: s.base, trouble: "asking ..."}, again: make(chan struct{}, 1)}
	readings, keys := make(chan reading), make(chan byte)
	ended := make(chan struct{}, 2)
	go func() { // ends with ctx
		s.poll(ctx, every, readings, w.again)
		ended <- struct{}{}
	}()
	go func() { // ends when the terminal is closed
		t.sendKeys(ctx, keys)
		ended <- struct{}{}
	}()
	err = w.run(readings, keys, signals)
	t.leave()
	cancel()
	t.file.Close()
	<-ended
	<-ended
	return err
}

// poll reads the server again and again.
func (s *server) poll(ctx context.Context, every time.Duration, out chan<- reading, again <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		r := s.read(ctx)
		select {
		case out <- r:
		case <-ctx.Done():
			return
		}
		select {
		case <-tick.C:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// sendKeys sends what is typed; the channel is closed when the terminal is gone.
func (t *terminal) sendKeys(ctx context.Context, out chan<- byte) {
	defer close(out)
	for buffer := make([]byte, 1); ; {
		n, err := t.file.Read(buffer)
		if err != nil || n == 0 {
			return
		}
		select {
		case out <- buffer[0]:
		case <-ctx.Done():
			return
		}
	}
}

// watcher is the loop between server, terminal and signals.
type watcher struct {
	*terminal
	picture
	colour bool
	last   *gauges.Sample
	again  chan struct{} // asks for a reading now
}

func (w *watcher) run(readings <-chan reading, keys <-chan byte, signals <-chan os.Signal) error {
	if err := w.enter(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	for {
		w.draw()
		select {
		case r := <-readings:
			w.takeReading(w.last, &r)
			if r.sample != nil {
				w.last = r.sample
			}
		case key, open := <-keys:
			switch {
			case !open || key == 'q' || key == 'Q':
				return nil
			case key == ' ':
				select {
				case w.again <- struct{}{}:
				default: // it is asked for already
				}
			}
		case sig := <-signals:
			if w.handleSignal(sig) {
				return nil
			}
		}
	}
}

// handleSignal does what a signal asks for, and says whether that is to end.
func (w *watcher) handleSignal(sig os.Signal) (end bool) {
	switch sig {
	case syscall.SIGTSTP:
		w.leave()
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	case syscall.SIGCONT:
		_ = w.enter() // a terminal that is stuck is tried again with the next screen
	case syscall.SIGWINCH:
	default:
		return true
	}
	return false
}

// draw shows the picture; a terminal that takes nothing now has the next one. While the program is to be stopped, there is none.
func (w *watcher) draw() {
	if w.saved != nil {
		columns, rows := w.size()
		_ = w.showLines(w.drawLines(columns, rows), w.colour)
	}
}
