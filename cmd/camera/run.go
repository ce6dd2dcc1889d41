package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/camera"
	"github.com/prefillonly/prefillonly/videoext/detect"
	"github.com/prefillonly/prefillonly/videoext/link"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// runFlags are those of run.
type runFlags struct {
	server, stream, source, name, keyFile, preset string
	bandwidth, detector, decoder                  string
	rtt                                           time.Duration
	rate                                          float64
	loop, paced, json                             bool
	threads, memory                               int
}

func newRunCommand() *cobra.Command {
	f := runFlags{paced: true, rate: 10, preset: "superfast", threads: 1, decoder: "fastestdet", memory: camera.DefaultMemory >> 20}
	command := &cobra.Command{
		Use:   "run --server URL --stream NAME --source FILE|rtsp://...|@FILE",
		Short: "Stream a file or a camera to a server",
		Long: `Streams video to a server, in the way that the server's stream is set to: it cuts frames into segments, encodes what the
method asks for, and sends it over one connection of HTTP/2. It needs no settings of the method's own.

When the connection breaks, the server restarts or a camera of RTSP stops, it tries again until they are back, and goes on with the
segment that the server wants: what has no results yet and is still in memory is sent again. At a file's end it waits for the results
until none has come for two minutes. On SIGINT or SIGTERM it sends what it has taken, waits for the results, at most 15 seconds, and ends; a second
signal ends it at once.

The API key of the server is read from --api-key-file, or from PREFILLONLY_API_KEY. Other users of the machine see a command line:
--source @FILE takes an rtsp:// URL with a password from the first line of a file. Messages show its host and port alone.

On a terminal, each segment is told of in a line; with --json, each event is a line of JSON on standard output. At the end it says where
the processor's time went.

A method that finds things on the camera, as vigil does, needs a network for that (--detector).

With --bandwidth and --rtt the connection is as slow as such a link, both ways, to see what a method does there; a rate of 0 lets nothing pass.`,
		Example: `  camera run --server http://localhost:8000 --stream door --source dashcam.mp4 --loop
  camera run --server https://video.example.com --stream gate --source rtsp://10.0.0.7/live --api-key-file key
  camera run --server http://localhost:8000 --stream door --source clip.mp4 --realtime=false --json
  camera run --server http://localhost:8000 --stream door --source clip.mp4 --bandwidth 0s:2Mbit,10s:0,15s:500kbit --rtt 100ms`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return streamSource(command.Context(), &f) },
	}
	flags := command.Flags()
	flags.StringVar(&f.server, "server", "", "the server's address, such as http://localhost:8000")
	flags.StringVar(&f.stream, "stream", "", "the stream's name there")
	flags.StringVar(&f.source, "source", "", "a file of video, rtsp://..., or @ and a file whose first line is that")
	flags.StringVar(&f.name, "name", "", "of this camera, in the server's log (default the host's)")
	flags.StringVar(&f.keyFile, "api-key-file", "", "file whose first line is the API key")
	flags.Float64Var(&f.rate, "rate", f.rate, "frames in a second that are taken, at most; 0: all")
	flags.BoolVar(&f.loop, "loop", f.loop, "begin a file anew at its end")
	flags.BoolVar(&f.paced, "realtime", f.paced, "take a file's frames when they are due; false: those of a segment when the one before has its results, and nothing is left out")
	flags.StringVar(&f.detector, "detector", "", "a small network, in ONNX's format, for methods that find things on the camera")
	flags.StringVar(&f.decoder, "decoder", f.decoder, "what its outputs mean: "+strings.Join(vision.Names(), ", "))
	flags.StringVar(&f.preset, "preset", f.preset, "x264's, by the time it takes: ultrafast, superfast, veryfast, faster, fast, medium, ...")
	flags.IntVar(&f.threads, "threads", f.threads, "threads to encode and to detect with")
	flags.IntVar(&f.memory, "memory", f.memory, "MiB of frames that are kept, at most")
	flags.StringVar(&f.bandwidth, "bandwidth", "", "of the link, as 2Mbit, in steps from the start on, as 0s:2Mbit,10s:500kbit, or a file with lines of seconds and kbit (default: as it is)")
	flags.DurationVar(&f.rtt, "rtt", 0, "round trip that is added to the link's")
	flags.BoolVar(&f.json, "json", f.json, "print events as lines of JSON")
	return command
}

// check says what is wrong with the flags.
func (f *runFlags) check() error {
	for name, v := range map[string]string{"server": f.server, "stream": f.stream, "source": f.source} {
		if v == "" {
			return &usageError{fmt.Errorf("--%s is missing", name)}
		}
	}
	switch {
	case f.threads < 1 || f.threads > maxThreads:
		return &usageError{fmt.Errorf("--threads %d is not 1 to %d", f.threads, maxThreads)}
	case f.memory < 1 || f.memory > 1<<20:
		return &usageError{fmt.Errorf("--memory %d is not 1 to %d MiB", f.memory, 1<<20)}
	case f.rtt < 0 || f.rtt > time.Minute:
		return &usageError{fmt.Errorf("--rtt %v is not 0 to 1m", f.rtt)}
	case !(f.rate >= 0 && f.rate <= 1000):
		return &usageError{fmt.Errorf("--rate %v is not 0 to 1000 frames in a second", f.rate)}
	}
	return nil
}

func streamSource(ctx context.Context, f *runFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	key, err := apikey.Sent(f.keyFile, os.Getenv("PREFILLONLY_API_KEY"))
	if err != nil {
		return err
	}
	if file, ok := strings.CutPrefix(f.source, "@"); ok {
		if f.source, err = firstLine(file); err != nil {
			return fmt.Errorf("--source: %w", err)
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program
	dial, err := f.newLinkDialer()
	if err != nil {
		return err
	}
	c, err := f.openConfig(ctx, &camera.Server{URL: f.server, Stream: f.stream, Key: key, Dial: dial})
	if err != nil {
		return err
	}
	if f.detector != "" {
		network, err := f.openDetector(c.Width, c.Height)
		if err != nil {
			return err
		}
		defer network.close()
		c.Detector = network
	}
	p := newPrinter(f.json, c.Rate)
	c.Observe = p.event
	totals, err := camera.Run(ctx, *c)
	p.printTotals(&totals)
	return err
}

// newLinkDialer is how connections over the link are made; nil: there is no other link than that to the server.
func (f *runFlags) newLinkDialer() (func(ctx context.Context, network, address string) (net.Conn, error), error) {
	if f.bandwidth == "" && f.rtt == 0 {
		return nil, nil
	}
	trace := link.Unlimited()
	if f.bandwidth != "" {
		var err error
		if trace, err = link.LoadTrace(f.bandwidth); err != nil {
			return nil, &usageError{fmt.Errorf("--bandwidth: %w", err)}
		}
	}
	return link.NewShaper(trace, f.rtt).Dial((&net.Dialer{Timeout: camera.DialTimeout}).DialContext), nil
}

// openConfig opens the source for what it says of itself.
func (f *runFlags) openConfig(ctx context.Context, server *camera.Server) (*camera.Config, error) {
	open := func(ctx context.Context) (*ffmpeg.Clip, error) {
		return ffmpeg.Open(ctx, f.source, ffmpeg.Options{Rate: f.rate})
	}
	first, err := open(ctx)
	if err != nil {
		return nil, err
	}
	info := first.Info()
	if err := first.Close(); err != nil {
		return nil, err
	}
	rate := f.rate
	if rate == 0 || info.Rate > 0 && info.Rate < rate {
		rate = info.Rate
	}
	if rate == 0 {
		return nil, errors.New("the source does not say how many frames it has in a second: --rate is needed")
	}
	host, _ := os.Hostname() // it is for logs
	return &camera.Config{
		Name: cmp.Or(f.name, host), Peer: server, Width: info.Width, Height: info.Height,
		Footage: camera.Footage{
			Open: func(ctx context.Context) (camera.Source, error) { return open(ctx) },
			Rate: rate, Live: ffmpeg.IsRTSP(f.source), Loop: f.loop, Paced: f.paced,
		},
		Encoder: x264.Encoder{Threads: f.threads}, Preset: f.preset, Memory: f.memory << 20,
	}, nil
}

// detector is a network on a device of its own.
type detector struct {
	*detect.Detector
	backend *cpu.Backend
}

func (d *detector) close() {
	if d.Detector != nil {
		d.Detector.Close()
	}
	d.backend.Close()
}

// openDetector opens the network for frames of a size.
func (f *runFlags) openDetector(width, height int) (*detector, error) {
	o, err := detect.ForFrames(f.decoder, width, height)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--decoder: %w", err)}
	}
	backend, err := cpu.New(cpu.Config{Threads: f.threads})
	if err != nil {
		return nil, err
	}
	d := &detector{backend: backend}
	if d.Detector, err = detect.Open(f.detector, backend, o); err != nil {
		d.close()
		return nil, fmt.Errorf("--detector: %w", err)
	}
	return d, nil
}

// firstLine is that of a file, without spaces around it; it is not empty.
func firstLine(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan()
	line := strings.TrimSpace(lines.Text())
	if err := lines.Err(); err != nil {
		return "", err
	}
	if line == "" {
		return "", fmt.Errorf("%s: its first line is empty", file)
	}
	return line, nil
}
