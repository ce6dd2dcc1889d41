package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/bench/video"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/detect"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/motion"
	"github.com/prefillonly/prefillonly/videoext/resolve"
	"github.com/prefillonly/prefillonly/videoext/shaper"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// evalFlags are those of `video eval`.
type evalFlags struct {
	clips                                            []string
	detector, decoder, cameraDetector, cameraDecoder string
	resolver                                         string
	methods, classes, link, out                      string
	rate                                             float64
	rtt                                              time.Duration
	seconds, found                                   float64
	frames, threads                                  int
}

func newEvalCommand() *cobra.Command {
	var f evalFlags
	command := &cobra.Command{
		Use:   "eval --clips A.mp4,B.mp4 --detector M.onnx --out DIR",
		Short: "Compare ways to stream video on clips",
		Long: `Streams clips to a network in many ways and settings, and writes how accurate what it finds is, and what that costs, to
DIR/results.csv, with charts beside it, and how each stands to plain H.264 (mpeg) to the output. Codecs and networks are real, and encoding is done by the program camera; time and the
link are virtual. What the network finds in the frames as they are is taken for true, and clips should be in the best quality there is.

A method that is named alone is run with several settings; or say which, as dds:preset=tuned,low=40,high=26. Methods and their settings:
` + methods.Help(),
		Args: cobra.NoArgs,
		Example: `  prefillonly video eval --clips road.mp4 --detector yolox_nano.onnx --classes car,bus,train,truck --out results
  prefillonly video eval --clips road.mp4 --detector yolox_nano.onnx --methods dds:adapt,awstream --link 0s:2Mbit,10s:300kbit --out results`,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command) },
	}
	flags := command.Flags()
	flags.StringSliceVar(&f.clips, "clips", nil, "files of video")
	flags.StringVar(&f.detector, "detector", "", "the server's network, in ONNX's format")
	flags.StringVar(&f.decoder, "decoder", "yolox", "what its outputs mean: "+strings.Join(vision.Names(), ", "))
	flags.StringVar(&f.cameraDetector, "camera-detector", "", "a small network on the camera, for methods that have one")
	flags.StringVar(&f.cameraDecoder, "camera-decoder", "fastestdet", "what its outputs mean")
	flags.StringVar(&f.resolver, "resolver", "", "a network that enlarges frames, for cloudseg; tools/carn_onnx.py makes one")
	flags.StringVar(&f.methods, "methods", "mpeg,dds", "methods, with commas between them")
	flags.StringVar(&f.classes, "classes", "", "classes that are looked for, taken as one, such as car,bus,truck (default: all, each by itself)")
	flags.StringVar(&f.link, "link", "", "rate of the link, as 2Mbit, in steps, as 0s:2Mbit,10s:500kbit, or a file with lines of seconds and kbit (default: all at once)")
	flags.DurationVar(&f.rtt, "rtt", 100*time.Millisecond, "round trip of the link")
	flags.Float64Var(&f.rate, "rate", 10, "frames a second that are taken of clips, at most; 0: all")
	flags.Float64Var(&f.seconds, "seconds", 0, "how much is taken of each clip (default: all)")
	flags.IntVar(&f.frames, "segment", 15, "frames of a segment, of methods without a setting of their own")
	flags.Float64Var(&f.found, "found", 0, "least score of what counts as found (default: 0.5, as published)")
	flags.IntVar(&f.threads, "threads", 1, "threads to compute with; their time is added up")
	flags.StringVar(&f.out, "out", "", "directory to write to")
	for _, name := range []string{"clips", "detector", "out"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return command
}

func (f *evalFlags) run(command *cobra.Command) error {
	network, err := f.network()
	if err != nil {
		return usageError("--link: %w", err)
	}
	if err := f.checkTools(); err != nil {
		return err
	}
	program, err := pipe.Find()
	if err != nil {
		return err
	}
	client, err := pipe.Start(command.Context(), program)
	if err != nil {
		return err
	}
	codec := &evalCodec{ctx: command.Context(), client: client}
	defer codec.close()
	backend, err := cpu.New(cpu.Config{Threads: f.threads})
	if err != nil {
		return err
	}
	defer backend.Close()
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	e := evaluation{evalFlags: f, codec: codec, backend: backend, network: network, rules: video.Published(float32(f.found)), say: progressOf()}
	for _, name := range f.clips {
		if err := e.clip(name); err != nil {
			return errors.Join(err, e.write())
		}
	}
	e.say("", 0, 0)
	return errors.Join(e.write(), video.Draw(e.rows, f.out), video.Compare(command.OutOrStdout(), e.rows))
}

// checkTools says which network a method lacks.
func (f *evalFlags) checkTools() error {
	for _, s := range video.Specifications(f.methods) {
		switch name, _, _ := strings.Cut(s, ":"); {
		case name == "vigil" && f.cameraDetector == "":
			return usageError("vigil finds things on the camera: name a small network with --camera-detector")
		case name == "cloudseg" && f.resolver == "":
			return usageError("cloudseg enlarges frames: name a network for that with --resolver (tools/carn_onnx.py makes one)")
		}
	}
	return nil
}

// network is the link for each run.
func (f *evalFlags) network() (n video.Network, err error) {
	n = video.Unlimited()
	n.RTT = f.rtt
	if f.link == "" {
		return n, nil
	}
	n.Trace, err = shaper.Load(f.link)
	return n, err
}

// progressOf tells a terminal how far a run is: what runs, and which of how many.
func progressOf() func(what string, done, of int) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return func(what string, done, of int) {
			if of > 0 {
				fmt.Fprintf(os.Stderr, "%d/%d %s\n", done+1, of, what)
			}
		}
	}
	bar := progressbar.NewOptions(1, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
	return func(what string, done, of int) {
		if of == 0 {
			_ = bar.Finish() // the terminal may be gone
			return
		}
		bar.ChangeMax(of)
		bar.Describe(what)
		_ = bar.Set(done)
	}
}

// write writes what is there so far.
func (e *evaluation) write() error {
	return writeFile(filepath.Join(e.out, "results.csv"), func(w *os.File) error { return video.Write(w, e.rows) })
}

// evalCodec encodes in the camera program, and decodes here.
type evalCodec struct {
	ctx    context.Context
	client *pipe.Client
	scaler ffmpeg.Scaler
}

func (c *evalCodec) close() {
	c.scaler.Close()
	_ = c.client.Close() // it has nothing left to lose
}

// Encode implements emulate.Codec.
func (c *evalCodec) Encode(frames []*media.Frame, s media.Settings) (emulate.Coded, error) {
	before := c.client.Times()
	segment, err := c.client.Encode(c.ctx, frames, s)
	if err != nil {
		return emulate.Coded{}, err
	}
	after := c.client.Times()
	file, err := ffmpeg.MP4(segment)
	return emulate.Coded{Segment: segment, Container: len(file), Took: after.Processor - before.Processor}, err
}

// Decode implements emulate.Codec.
func (c *evalCodec) Decode(s *media.Segment) ([]*media.Frame, error) { return ffmpeg.Decode(c.ctx, s) }

// Scale implements emulate.Codec.
func (c *evalCodec) Scale(f *media.Frame, width, height int) (*media.Frame, error) {
	if f.Width == width && f.Height == height {
		return f, nil
	}
	return c.scaler.Scale(f, width, height)
}

// readClip reads frames into memory, which is bounded by maxClip.
func (f *evalFlags) readClip(ctx context.Context, name string) (*emulate.Clip, error) {
	source, err := ffmpeg.Open(ctx, name, ffmpeg.Options{Rate: f.rate})
	if err != nil {
		return nil, err
	}
	defer source.Close()
	file, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	info := source.Info()
	clip := &emulate.Clip{Name: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), Rate: info.Rate}
	if f.rate > 0 && (f.rate < info.Rate || info.Rate == 0) {
		clip.Rate = f.rate
	}
	for bytes := 0; ; {
		frame, err := source.Next(ctx)
		if errors.Is(err, io.EOF) || err == nil && f.seconds > 0 && float64(len(clip.Frames)) >= f.seconds*clip.Rate {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if bytes += len(frame.Y) + len(frame.Cb) + len(frame.Cr); bytes > maxClip {
			return nil, fmt.Errorf("%s: %d frames take more than %d MiB: say with --seconds or --rate to take fewer", name, len(clip.Frames), maxClip>>20)
		}
		clip.Frames = append(clip.Frames, frame)
	}
	if len(clip.Frames) == 0 {
		return nil, fmt.Errorf("%s has no frames", name)
	}
	clip.Bytes = int(file.Size())
	if used := float64(len(clip.Frames)) / clip.Rate; info.Duration > 0 && used < info.Duration.Seconds() {
		clip.Bytes = int(float64(clip.Bytes) * used / info.Duration.Seconds())
	}
	return clip, nil
}

// maxClip is how many bytes of frames are kept of a clip.
const maxClip = 2 << 30

// evaluation is one run of `video eval`.
type evaluation struct {
	*evalFlags
	codec   *evalCodec
	backend *cpu.Backend
	network video.Network
	rules   video.Rules
	say     func(what string, done, of int)
	rows    []video.Row
}

// clip runs all methods on one clip.
func (e *evaluation) clip(name string) error {
	clip, err := e.readClip(e.codec.ctx, name)
	if err != nil {
		return err
	}
	server, err := e.open(e.detector, e.decoder, clip)
	if err != nil {
		return err
	}
	defer server.detector.Close()
	tools := emulate.Tools{Codec: e.codec, Server: server, Differ: motion.Differ, Track: motion.Track, Clock: processorTime}
	if e.cameraDetector != "" {
		camera, err := e.open(e.cameraDetector, e.cameraDecoder, clip)
		if err != nil {
			return err
		}
		defer camera.detector.Close()
		tools.Camera = camera
	}
	if e.resolver != "" {
		resolver, err := resolve.Open(e.resolver, e.backend)
		if err != nil {
			return err
		}
		defer resolver.Close()
		tools.Resolve = resolver.Resolve
	}
	var all []string
	for _, s := range video.Specifications(e.methods) {
		if strings.Contains(s, ":") {
			all = append(all, s)
			continue
		}
		all = append(all, video.Usual(s, e.frames, float64(clip.Bytes)/float64(len(clip.Frames))*clip.Rate)...)
	}
	learned, err := e.learn(tools, clip, all)
	if err != nil {
		return err
	}
	lab := emulate.NewLab(tools, clip)
	for i, specification := range all {
		e.say(clip.Name+" "+specification, i, len(all))
		m, err := methods.New(specification, learned)
		if err != nil {
			return usageError("%w", err)
		}
		_, m.Setting, _ = strings.Cut(specification, ":")
		row, err := video.Measure(lab, m, e.network, e.rules)
		if err != nil {
			return err
		}
		e.rows = append(e.rows, row)
	}
	return nil
}

// learn profiles the clip for those methods that are profiled.
func (e *evaluation) learn(tools emulate.Tools, clip *emulate.Clip, specifications []string) (learned methods.Learned, err error) {
	asked := func(name string) bool {
		return slices.ContainsFunc(specifications, func(s string) bool { return s == name || strings.HasPrefix(s, name+":") })
	}
	if asked("awstream") {
		learned, err = video.Profile(tools, clip, e.frames, e.rules, func(what string) { e.say(clip.Name+" "+what, 0, len(specifications)) })
	}
	if err == nil && asked("reducto") {
		e.say(clip.Name+" profile of differences", 0, len(specifications))
		learned.Filter, err = video.ProfileFilter(tools, clip, e.frames, e.rules)
	}
	return learned, err
}

// open opens a detector at about the clip's resolution, if its file leaves that open or it is one of those that take any.
func (e *evaluation) open(file, decoder string, clip *emulate.Clip) (*evalNetwork, error) {
	d, err := vision.Find(decoder)
	if err != nil {
		return nil, usageError("%w", err)
	}
	o := detect.Options{Image: detect.Usual(decoder), Decoder: d, Vision: vision.Options{Score: leastScore, Proposals: leastObjectness, Margins: true}}
	if decoder == "yolox" { // convolutions alone
		const stride = 32
		o.Image.Height = (clip.Frames[0].Height + stride - 1) / stride * stride
		o.Image.Width = (clip.Frames[0].Width + stride - 1) / stride * stride
	}
	n := &evalNetwork{}
	if e.classes != "" {
		if n.wanted, err = classNumbers(d, strings.Split(e.classes, ",")); err != nil {
			return nil, usageError("--classes: %w", err)
		}
		o.Vision.Wanted = n.wanted
	}
	n.detector, err = detect.Open(file, e.backend, o)
	return n, err
}

// classNumbers are those of labels or numbers.
func classNumbers(d *vision.Decoder, labels []string) (numbers []int, err error) {
	for _, label := range labels {
		n, err := strconv.Atoi(label)
		if err != nil {
			if n, err = d.Class(label); err != nil {
				return nil, err
			}
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// What methods get to see: below the least threshold that any of them has.
const (
	leastScore      = 0.2
	leastObjectness = 0.05
)

// evalNetwork finds things of some classes, taken as one.
type evalNetwork struct {
	detector *detect.Detector
	wanted   []int // nil: all, each by itself
}

// Infer implements emulate.Network.
func (n *evalNetwork) Infer(f *media.Frame) (videoext.Findings, error) {
	r, err := n.detector.Detect(images.FromImage(f.RGBA()))
	if err != nil {
		return videoext.Findings{}, err
	}
	found := r.Findings(vision.Size{Height: f.Height, Width: f.Width})
	if n.wanted == nil {
		return found, nil
	}
	some := slices.Clone(videoext.OfClasses(found.Detections, n.wanted))
	for i := range some {
		some[i].Class = n.wanted[0]
	}
	found.Detections = videoext.Suppress(some, vision.DefaultIoU)
	return found, nil
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
