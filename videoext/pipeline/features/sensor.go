package features

import (
	"image"
	"image/color"
	"math/rand/v2"

	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/videoext/media"
)

// Sensor is what frames are taken with: a camera, or a stand-in for another sensor, made of a camera's frames.
type Sensor struct {
	Name    string
	taken   func(f *media.Frame) image.Image
	StandIn bool
}

// Sensors are a camera, and stand-ins for a depth camera and for an infrared one, for which there are no recordings.
func Sensors() []Sensor {
	return []Sensor{
		{"rgb", func(f *media.Frame) image.Image { return f.RGBA() }, false},
		{"depth-stand-in", depthImage, true},
		{"infrared-stand-in", infraredImage, true},
	}
}

// greyImage makes a picture of luma.
func greyImage(f *media.Frame, of func(x, y int) float64) image.Image {
	m := image.NewGray(image.Rect(0, 0, f.Width, f.Height))
	for y := range f.Height {
		for x := range f.Width {
			m.SetGray(x, y, color.Gray{Y: uint8(max(0, min(255, of(x, y))))})
		}
	}
	return m
}

// depthImage stands in for a depth camera: smooth, and the nearer the lower in the picture: half a ramp, and half luma in blocks of 8.
func depthImage(f *media.Frame) image.Image {
	const block = 8
	columns := (f.Width + block - 1) / block
	means := make([]float64, columns*((f.Height+block-1)/block))
	for i := range means {
		x0, y0 := i%columns*block, i/columns*block
		n := 0.0
		for y := y0; y < min(y0+block, f.Height); y++ {
			for x := x0; x < min(x0+block, f.Width); x++ {
				means[i] += float64(f.Y[y*f.YStride+x])
				n++
			}
		}
		means[i] /= n
	}
	return greyImage(f, func(x, y int) float64 {
		return 0.25*255*float64(y)/float64(f.Height) + 0.75*means[y/block*columns+x/block]
	})
}

// infraredImage stands in for an infrared camera: luma inverted, with a third of its contrast gone, and noise that is the same each time.
func infraredImage(f *media.Frame) image.Image {
	random := rand.New(rand.NewPCG(uint64(f.Index), 7))
	return greyImage(f, func(x, y int) float64 {
		return 40 + 0.67*(255-float64(f.Y[y*f.YStride+x])) + 4*random.NormFloat64()
	})
}

// takePicture is a frame as a sensor takes it.
func (s Sensor) takePicture(f *media.Frame) *images.Picture { return images.FromImage(s.taken(f)) }
