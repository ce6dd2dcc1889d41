package video

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/bench/video"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/link"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/motion"
	"github.com/prefillonly/prefillonly/videoext/resolve"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// evalFlags are those of `video eval`.
type evalFlags struct {
	clips                                            []string
	detector, decoder, cameraDetector, cameraDecoder string
	resolver                                         string
	methods, classes, image, out                     string
	links                                            []string
	rate, from, seconds, part, found, largest        float64
	resource                                         string
	against                                          []string
	rtt, gradientWait                                time.Duration
	frames, threads                                  int
}

func newEvalCommand() *cobra.Command {
	var f evalFlags
	command := &cobra.Command{
		Use:   "eval --clips A.mp4,B.mp4 --detector M.onnx --out DIR",
		Short: "Compare ways to stream video on clips",
		Long: `Streams clips to a network in many ways and settings, and writes how accurate what it finds is, and what that costs, to
DIR/results.csv, with charts beside it, and how each stands to plain H.264 (mpeg) or to what --against names to the output. Codecs and networks are real, and encoding is done by the program camera; time and the
link are virtual. What the network finds in the frames as they are is taken for true, and clips should be in the best quality there is.

A method that is named alone is run with several settings; or say which, as dds:preset=tuned,low=40,high=26. Methods and their settings:
` + methods.Help(),
		Args: cobra.NoArgs,
		Example: `  prefillonly video eval --clips road.mp4 --detector yolox_nano.onnx --classes car,bus,train,truck --out results
  prefillonly video eval --clips road.mp4 --detector yolox_nano.onnx --methods dds:adapt,awstream --link 0s:2Mbit,10s:300kbit --out results`,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command) },
	}
	flags := command.Flags()
	flags.StringSliceVar(&f.clips, "clips", nil, "video files, separated by commas")
	flags.StringVar(&f.detector, "detector", "", "ONNX file of the server's network")
	flags.StringVar(&f.decoder, "decoder", "yolox", "decoder of its outputs: "+strings.Join(vision.Names(), ", "))
	flags.StringVar(&f.image, "image", "", "how frames become its input, as `image` of a model's entry (default: as the decoder's networks are published)")
	flags.StringVar(&f.cameraDetector, "camera-detector", "", "ONNX file of a small network on the camera, for methods that use one")
	flags.StringVar(&f.cameraDecoder, "camera-decoder", "fastestdet", "decoder of its outputs")
	flags.StringVar(&f.resolver, "resolver", "", "ONNX file of a network that enlarges frames, for cloudseg; tools/train/carn_onnx.py makes one")
	flags.StringVar(&f.methods, "methods", "mpeg,dds", "methods, separated by commas")
	flags.StringVar(&f.classes, "classes", "", "classes to find, counted as one, such as car,bus,truck (default: all, each by itself)")
	flags.StringArrayVar(&f.links, "link", nil, `rate of the link: as 2Mbit; in steps, as 0s:2Mbit,10s:500kbit; changing each second, as 2Mbit~0.3, by a deviation of
0.3 of it (2Mbit~0.3#7: other chances); or a file with lines of seconds and kbit (default: all at once). Several: each method is run over each`)
	flags.DurationVar(&f.rtt, "rtt", 100*time.Millisecond, "round trip of the link")
	flags.DurationVar(&f.gradientWait, "gradient-wait", 0, "time that each gradient of oneadapt waits for the device")
	flags.Float64Var(&f.rate, "rate", 10, "most frames a second taken of each clip; 0 takes all")
	flags.Float64Var(&f.from, "from", 0, "seconds to skip at the beginning of each clip")
	flags.Float64Var(&f.seconds, "seconds", 0, "seconds to take of each clip (default: all)")
	flags.Float64Var(&f.part, "part", 0, "seconds of the parts that each clip is cut into and evaluated by (default: the whole clip)")
	flags.IntVar(&f.frames, "segment", 15, "frames in a segment, for methods without a setting of their own")
	flags.Float64Var(&f.found, "found", 0, "least score of a detection (default: 0.5, as published)")
	flags.Float64Var(&f.largest, "largest", 0, "largest box that counts, as a share of the frame (default: as published, 0.04 by DDS's rule and 0.08 by OneAdapt's)")
	flags.StringVar(&f.resource, "resource", "bytes", "what to save: bytes, or frames that the server's network computes (a gradient counts as the frames that take as long)")
	flags.StringSliceVar(&f.against, "against", []string{"mpeg", "awstream"}, "methods to compare others with; each result with the first")
	flags.IntVar(&f.threads, "threads", 1, "threads to compute with; times are summed")
	flags.StringVar(&f.out, "out", "", "directory to write to")
	for _, name := range []string{"clips", "detector", "out"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return command
}

func (f *evalFlags) run(command *cobra.Command) error {
	networks, err := f.parseNetworks()
	if err != nil {
		return cli.UsageError("--link: %w", err)
	}
	if err := f.check(); err != nil {
		return err
	}
	cost, err := f.costResource()
	if err != nil {
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
	e := evaluation{evalFlags: f, codec: codec, backend: backend, networks: networks, rules: video.Published(float32(f.found), float32(f.largest)), say: progressOf()}
	for _, name := range f.clips {
		if err := e.evaluateClip(name); err != nil {
			return errors.Join(err, e.writeResults())
		}
	}
	e.say("", 0, 0)
	return errors.Join(e.writeResults(), video.Draw(e.rows, cost, f.out), video.Compare(command.OutOrStdout(), e.rows, cost, f.against))
}

// check says which network a method lacks, and which part of a clip there is not.
func (f *evalFlags) check() error {
	for name, v := range map[string]float64{"--from": f.from, "--seconds": f.seconds, "--part": f.part, "--rate": f.rate, "--largest": f.largest} {
		if !(v >= 0) {
			return cli.UsageError("%s %g is to be 0 or more", name, v)
		}
	}
	if f.gradientWait < 0 {
		return cli.UsageError("--gradient-wait %v is to be 0 or more", f.gradientWait)
	}
	for _, s := range video.Specifications(f.methods) {
		switch name, _, _ := strings.Cut(s, ":"); {
		case (name == "vigil" || name == "accmpeg") && f.cameraDetector == "":
			return cli.UsageError("%s finds things on the camera: name a small network with --camera-detector", name)
		case name == "cloudseg" && f.resolver == "":
			return cli.UsageError("cloudseg enlarges frames: name a network for that with --resolver (tools/train/carn_onnx.py makes one)")
		}
	}
	return nil
}

// costResource is the resource that results are compared by.
func (f *evalFlags) costResource() (video.Resource, error) {
	i := slices.IndexFunc(video.Resources, func(r video.Resource) bool { return r.Name == f.resource })
	switch {
	case i < 0:
		return video.Resource{}, cli.UsageError("--resource %q is to be bytes or frames", f.resource)
	case len(f.against) == 0:
		return video.Resource{}, cli.UsageError("--against names no method: name one at least")
	}
	return video.Resources[i], nil
}

// parseNetworks are the links that methods are run over.
func (f *evalFlags) parseNetworks() (all []video.Network, err error) {
	if len(f.links) == 0 {
		n := video.Unlimited()
		n.RTT = f.rtt
		return []video.Network{n}, nil
	}
	for _, name := range f.links {
		trace, err := link.LoadTrace(name)
		if err != nil {
			return nil, err
		}
		all = append(all, video.Network{Name: filepath.Base(name), Trace: trace, RTT: f.rtt})
	}
	return all, nil
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

// writeResults writes what is there so far.
func (e *evaluation) writeResults() error {
	return cli.WriteFile(filepath.Join(e.out, "results.csv"), func(w *os.File) error { return video.Write(w, e.rows) })
}

// evaluation is one run of `video eval`.
type evaluation struct {
	*evalFlags
	codec    *evalCodec
	backend  *cpu.Backend
	networks []video.Network
	rules    video.Rules
	say      func(what string, done, of int)
	rows     []video.Row
}

// evaluateClip runs all methods on one clip, or on each part of it.
func (e *evaluation) evaluateClip(name string) error {
	clip, err := e.readClip(e.codec.ctx, name)
	if err != nil {
		return err
	}
	server, err := e.open(e.detector, e.decoder, e.image, clip)
	if err != nil {
		return err
	}
	defer server.detector.Close()
	tools := emulate.Tools{Codec: e.codec, Server: server, Gradient: server, Differ: motion.Differ, Track: motion.Track, Clock: processorTime, GradientWait: e.gradientWait}
	if e.cameraDetector != "" {
		camera, err := e.open(e.cameraDetector, e.cameraDecoder, "", clip)
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
	for _, part := range video.Parts(clip, e.part) {
		if err := e.methodsOn(part, tools); err != nil {
			return err
		}
	}
	return nil
}

// methodsOn runs all methods on one clip, over all links.
func (e *evaluation) methodsOn(clip *emulate.Clip, tools emulate.Tools) error {
	var all []string
	for _, s := range video.Specifications(e.methods) {
		if strings.Contains(s, ":") {
			all = append(all, s)
			continue
		}
		all = append(all, video.Usual(s, e.frames, float64(clip.Bytes)/float64(len(clip.Frames))*clip.Rate)...)
	}
	learned, err := e.learnMethods(tools, clip, all)
	if err != nil {
		return err
	}
	lab := emulate.NewLab(tools, clip)
	for i, specification := range all {
		m, err := methods.New(specification, learned)
		if err != nil {
			return cli.UsageError("%w", err)
		}
		_, m.Setting, _ = strings.Cut(specification, ":")
		for k, network := range e.networks {
			e.say(strings.TrimSpace(clip.Name+" "+specification+" "+network.Name), i*len(e.networks)+k, len(all)*len(e.networks))
			row, err := video.Measure(lab, m, network, e.rules)
			if err != nil {
				return err
			}
			e.rows = append(e.rows, row)
		}
		if err := e.writeResults(); err != nil {
			return err
		}
	}
	return nil
}

// learnMethods profiles the clip for those methods that are profiled.
func (e *evaluation) learnMethods(tools emulate.Tools, clip *emulate.Clip, specifications []string) (learned methods.Learned, err error) {
	asked := func(name string) bool {
		return slices.ContainsFunc(specifications, func(s string) bool { return s == name || strings.HasPrefix(s, name+":") })
	}
	if asked("awstream") {
		learned, err = video.Profile(tools, clip, e.frames, e.rules, func(what string) { e.say(clip.Name+" "+what, 0, len(specifications)) })
		if err == nil { // as streams of a server want it
			text := "awstream:profile=" + methods.ProfileText(learned.Configurations) + "\n"
			err = os.WriteFile(filepath.Join(e.out, clip.Name+".awstream.txt"), []byte(text), 0o644)
		}
	}
	if err == nil && asked("reducto") {
		e.say(clip.Name+" profile of differences", 0, len(specifications))
		learned.Filter, err = video.ProfileFilter(tools, clip, e.frames, e.rules)
	}
	return learned, err
}
