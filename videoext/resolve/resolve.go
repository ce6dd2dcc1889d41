// Package resolve enlarges frames by a network of super-resolution, such as CARN-M, which tools/train/carn_onnx.py makes. Large frames are enlarged in
// tiles, so that memory is bounded.
// It is apart because ways to stream are pure and are given it as a function: whoever runs networks stands beside them.
package resolve

import (
	"errors"
	"fmt"
	"image"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/videoext/media"
)

const (
	// margin is what is computed around a tile and not used. A pixel that CARN-M makes depends on 21 pixels on each side: one of its first
	// convolution, 18 of those in its nine residual blocks, two of those that enlarge.
	margin      = 24
	mostPixels  = 1 << 18              // of a tile, its margins included
	leastPixels = 16 * margin * margin // of a tile, so that it is not all margin
	workBytes   = 1 << 30              // that the device may compute in
)

// Resolver enlarges frames. One goroutine, that of its backend, uses it.
type Resolver struct {
	network *direct.Network
	input   *images.Target
	pixels  int // of a tile at most
}

// Open makes a Resolver of a file's network, which takes red, green and blue from 0 to 1 in any height and width, and gives the same. The
// backend is the caller's.
func Open(file string, backend kernels.Backend) (*Resolver, error) {
	network, err := direct.Open(file, backend, dnn.Options{WorkBytes: workBytes})
	if err != nil {
		return nil, err
	}
	in := network.Input()
	input, err := images.NewTarget(in.Type, in.Shape, images.Options{Scale: []float64{255}})
	if err == nil && (!input.ChannelsFirst || input.Height > 0 || input.Width > 0) {
		err = fmt.Errorf("%v is not [1 3 -1 -1]", in.Shape)
	}
	if err != nil {
		network.Close()
		return nil, fmt.Errorf("%s enlarges no frames: input %s: %w", file, in.Name, err)
	}
	return &Resolver{network, input, mostPixels}, nil
}

// Close frees the network's memory and its file.
func (r *Resolver) Close() { r.network.Close() }

// Resolve makes a frame that is factor times as wide and as high; the network must be one for that factor.
func (r *Resolver) Resolve(f *media.Frame, factor int) (*media.Frame, error) {
	if err := media.CheckSize(f.Width*factor, f.Height*factor); err != nil {
		return nil, err
	}
	from, to := f.RGBA(), image.NewRGBA(image.Rect(0, 0, f.Width*factor, f.Height*factor))
	err := r.enlargePicture(from, to, factor)
	for tooLong(err) && r.pixels/2 >= leastPixels {
		r.pixels /= 2 // the network takes more memory than CARN-M
		err = r.enlargePicture(from, to, factor)
	}
	if err != nil {
		return nil, fmt.Errorf("enlarge a frame of %d x %d pixels: %w", f.Width, f.Height, err)
	}
	large := media.FromRGBA(to, f.Matrix)
	large.Index, large.Time = f.Index, f.Time
	return large, nil
}

func tooLong(err error) bool {
	var e *engine.Error
	return errors.As(err, &e) && e.Code == engine.CodeTooLong
}

// enlargePicture fills a picture, tile by tile.
func (r *Resolver) enlargePicture(from, to *image.RGBA, factor int) error {
	for _, t := range splitTiles(from.Rect.Dx(), from.Rect.Dy(), r.pixels) {
		if err := r.enlargeTile(from, to, t, factor); err != nil {
			return err
		}
	}
	return nil
}

// enlargeTile enlarges what is used of a tile.
func (r *Resolver) enlargeTile(from, to *image.RGBA, t tile, factor int) error {
	height, width := t.seen.Dy(), t.seen.Dx()
	data := make([]byte, r.input.Bytes(height, width))
	r.input.Write(data, images.FromImage(from.SubImage(t.seen)))
	outputs, err := r.network.Run(r.input.Shape(1, height, width), data)
	if err != nil {
		return err
	}
	height, width = height*factor, width*factor
	if len(outputs) != 1 || len(outputs[0].Data) != 3*height*width || outputs[0].Shape[3] != width {
		return fmt.Errorf("the network makes %v of a picture of %v pixels; to enlarge it by %d is to make [1 3 %d %d]",
			outputShapes(outputs), t.seen.Size(), factor, height, width)
	}
	corner := t.seen.Min.Mul(factor)
	for y := t.used.Min.Y * factor; y < t.used.Max.Y*factor; y++ {
		row := to.Pix[to.PixOffset(t.used.Min.X*factor, y):]
		for c := range 3 {
			line := outputs[0].Data[(c*height+y-corner.Y)*width+t.used.Min.X*factor-corner.X:]
			for x := range t.used.Dx() * factor {
				row[4*x+c] = byte(min(max(line[x], 0), 1)*255 + 0.5)
			}
		}
	}
	return nil
}

func outputShapes(outputs []direct.Output) (all [][]int) {
	for _, o := range outputs {
		all = append(all, o.Shape)
	}
	return all
}

// tile is a part of a picture: what the network sees, and what of that is used. All tiles of a picture are seen in one size, for which
// the network is planned once.
type tile struct{ seen, used image.Rectangle }

// splitTiles are those of a picture: as few as may be, of so many pixels at most.
func splitTiles(width, height, pixels int) (all []tile) {
	columns, rows := 1, 1
	for tileSpan(width, columns)*tileSpan(height, rows) > pixels && (columns < width || rows < height) {
		if tileSpan(width, columns) > tileSpan(height, rows) {
			columns++
		} else {
			rows++
		}
	}
	for row := range rows {
		y0, y1 := height*row/rows, height*(row+1)/rows
		top := min(max(y0-margin, 0), height-tileSpan(height, rows))
		for column := range columns {
			x0, x1 := width*column/columns, width*(column+1)/columns
			left := min(max(x0-margin, 0), width-tileSpan(width, columns))
			all = append(all, tile{
				seen: image.Rect(left, top, left+tileSpan(width, columns), top+tileSpan(height, rows)),
				used: image.Rect(x0, y0, x1, y1),
			})
		}
	}
	return all
}

// tileSpan is how much is seen along a length that is cut into so many parts.
func tileSpan(length, parts int) int {
	if parts == 1 {
		return length
	}
	return min((length+parts-1)/parts+2*margin, length)
}
