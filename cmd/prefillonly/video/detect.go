// Package video holds the subcommands of `prefillonly video`: networks on pictures, ways to stream compared, and a demo.
package video

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/detect"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// New makes `prefillonly video`, of which serve is the process of a server.
func New(serve *cobra.Command) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "video",
		Short: "Run networks on pictures and video",
	}, newDetectCommand(), newEvalCommand(), newPipelinesCommand(), newDemoCommand(), serve)
}

// detectFlags are those of `video detect`.
type detectFlags struct {
	decoder, image, labels, config, out string
	score, iou                          float32
	threads                             int
}

func newDetectCommand() *cobra.Command {
	var f detectFlags
	command := &cobra.Command{
		Use:   "detect MODEL PICTURE...",
		Short: "Find what is in pictures, and draw it in",
		Long: `Runs a network on JPEG and PNG files, on this machine's processor and without a server, and writes for each a file of
JSON and a picture with what was found drawn in. MODEL is a file in ONNX's format or, with --config, the name of a model of that
configuration, whose entry says how pictures become its input (image) and what its outputs mean (decoder).

Decoders:
` + vision.Help(),
		Args: cobra.MinimumNArgs(2),
		Example: `  prefillonly video detect yolox_nano.onnx street.jpg --decoder yolox --out found
  prefillonly video detect face.onnx *.jpg --decoder ssd --image '{mean: [127], scale: [128]}'`,
		RunE: func(command *cobra.Command, args []string) error {
			return f.run(command, args[0], args[1:])
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.decoder, "decoder", "", "what the network's outputs mean")
	flags.StringVar(&f.image, "image", "", "how pictures become its input, as `image` of a model's entry (default: as the decoder's networks are published)")
	flags.StringVar(&f.labels, "labels", "", "file with a name for each class, one a line (default: the decoder's own)")
	flags.StringVar(&f.config, "config", "", "configuration file with the model's entry")
	flags.StringVar(&f.out, "out", ".", "directory to write to")
	flags.Float32Var(&f.score, "score", vision.DefaultScore, "least score of what is found")
	flags.Float32Var(&f.iou, "iou", vision.DefaultIoU, "overlap above which the worse of two boxes goes")
	flags.IntVar(&f.threads, "threads", 0, "threads to compute with (default: all processors)")
	return command
}

func (f *detectFlags) run(command *cobra.Command, model string, pictures []string) error {
	file, o, err := f.detectorOptions(model)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	backend, err := cpu.New(cpu.Config{Threads: f.threads})
	if err != nil {
		return err
	}
	defer backend.Close()
	detector, err := detect.Open(file, backend, o)
	if err != nil {
		return err
	}
	defer detector.Close()
	var bar *progressbar.ProgressBar
	if len(pictures) > 1 && term.IsTerminal(int(os.Stderr.Fd())) {
		bar = progressbar.NewOptions(len(pictures), progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
		defer func() { _ = bar.Finish() }()
	}
	var failed error
	for _, picture := range pictures {
		if err := f.detectPicture(command.OutOrStdout(), detector, file, picture); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", picture, err)) // the others are looked at all the same
		}
		if bar != nil {
			_ = bar.Add(1) // the terminal may be gone
		}
	}
	return failed
}

// detectorOptions are those of a file, or of a model's entry.
func (f *detectFlags) detectorOptions(model string) (file string, o detect.Options, err error) {
	file = model
	entry := config.Model{}
	if f.config != "" {
		if entry, err = modelEntry(f.config, model); err != nil {
			return "", o, err
		}
		file = entry.Path
	}
	if f.decoder != "" {
		entry.Decoder = f.decoder
	}
	if entry.Decoder == "" {
		return "", o, cli.UsageError("say with --decoder what the outputs of %s mean: %s", model, strings.Join(vision.Names(), ", "))
	}
	if o.Decoder, err = vision.Find(entry.Decoder); err != nil {
		return "", o, cli.UsageError("%w", err)
	}
	if f.image != "" {
		if entry.Image, err = config.ParseImage(f.image); err != nil {
			return "", o, cli.UsageError("--image: %w", err)
		}
	}
	o.Image = detect.Usual(entry.Decoder)
	if entry.Image.String() != "" {
		o.Image = modellist.ImageOptions(&entry.Image)
	}
	o.Vision = vision.Options{Score: f.score, IoU: f.iou}
	if f.labels != "" {
		text, err := os.ReadFile(f.labels)
		if err != nil {
			return "", o, err
		}
		o.Vision.Labels = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return file, o, nil
}

// modelEntry is a model's entry in a file.
func modelEntry(file, name string) (config.Model, error) {
	loaded, err := config.Load(file, nil, nil)
	if err == nil {
		err = loaded.Validate()
	}
	if err != nil {
		return config.Model{}, cli.ConfigError(err)
	}
	for _, m := range loaded.Serving() {
		if slices.Contains(m.Names, name) || m.Path == name {
			return m, nil
		}
	}
	return config.Model{}, cli.UsageError("%s has no model %q", file, name)
}

// found is the JSON of a picture.
type found struct {
	Model      string      `json:"model"`
	Picture    string      `json:"picture"`
	Width      int         `json:"width"`
	Height     int         `json:"height"`
	Detections []foundBox  `json:"detections"`
	Classes    []foundArea `json:"classes,omitempty"`
}

type foundBox struct {
	Box   [4]float32 `json:"box"` // x0, y0, x1, y1 in pixels
	Class int        `json:"class"`
	Label string     `json:"label,omitempty"`
	Score float32    `json:"score"`
}

type foundArea struct {
	Class int     `json:"class"`
	Label string  `json:"label,omitempty"`
	Share float64 `json:"share"` // of the picture
}

// detectPicture looks at one picture.
func (f *detectFlags) detectPicture(out io.Writer, detector *detect.Detector, model, picture string) error {
	data, err := os.ReadFile(picture)
	if err != nil {
		return err
	}
	pixels, err := images.DecodeImage(data)
	if err != nil {
		return err
	}
	p := images.FromImage(pixels)
	r, err := detector.Detect(p)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(picture), filepath.Ext(picture))
	text, err := json.MarshalIndent(describeResult(&r, filepath.Base(model), picture, p), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.out, name+".json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	drawn := filepath.Join(f.out, name+".found.jpg")
	fmt.Fprintf(out, "%s: %s\n", drawn, summarizeResult(&r))
	return cli.WriteFile(drawn, func(w *os.File) error {
		return jpeg.Encode(w, vision.Draw(pixels, &r), &jpeg.Options{Quality: 92})
	})
}

func describeResult(r *vision.Result, model, picture string, p *images.Picture) found {
	all := found{Model: model, Picture: picture, Width: p.Width, Height: p.Height, Detections: []foundBox{}}
	for _, d := range r.Detections {
		all.Detections = append(all.Detections, foundBox{[4]float32{d.Box.X0, d.Box.Y0, d.Box.X1, d.Box.Y1}, d.Class, d.Label, d.Score})
	}
	if r.Mask == nil {
		return all
	}
	for class, share := range r.Mask.Shares() {
		if share > 0 {
			all.Classes = append(all.Classes, foundArea{class, r.Mask.Label(class), share})
		}
	}
	return all
}

// summarizeResult is what was found in a few words.
func summarizeResult(r *vision.Result) string {
	if r.Mask != nil {
		var parts []string
		for class, share := range r.Mask.Shares() {
			if share >= 0.005 {
				parts = append(parts, fmt.Sprintf("%s %.0f %%", r.Mask.Label(class), 100*share))
			}
		}
		return strings.Join(parts, ", ")
	}
	counts, order := map[string]int{}, []string{}
	for _, d := range r.Detections {
		label := d.Name()
		if counts[label]++; counts[label] == 1 {
			order = append(order, label)
		}
	}
	if len(order) == 0 {
		return "nothing"
	}
	for i, label := range order {
		order[i] = fmt.Sprintf("%d %s", counts[label], label)
	}
	return strings.Join(order, ", ")
}
