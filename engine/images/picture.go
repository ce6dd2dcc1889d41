package images

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
)

// Picture is a picture in memory.
type Picture struct {
	Height, Width int
	row           func(y int, columns []int, into []byte) // writes the RGB of some pixels of a row
}

// MaxPixels is how many pixels a picture may have: those of 8K video.
const MaxPixels = 7680 * 4320

// maxScanned is how many pixels all scans of a JPEG may pass over: an encoder writes about ten scans, and one of sixty bytes
// takes the time of all the pixels.
const maxScanned = 16 * 7680 * 4320

// ErrFormat says that bytes are no picture of a known kind.
var ErrFormat = errors.New("it is neither JPEG nor PNG")

var (
	magicJPEG = []byte("\xff\xd8\xff")
	magicPNG  = []byte("\x89PNG\r\n\x1a\n")
)

// Size reads the size of a JPEG or PNG without decoding it. Its errors are ErrFormat, and what is wrong with the
// picture, of more than MaxPixels or too many scans too.
func Size(data []byte) (height, width int, err error) {
	var c image.Config
	switch {
	case bytes.HasPrefix(data, magicJPEG):
		c, err = jpeg.DecodeConfig(bytes.NewReader(data))
	case bytes.HasPrefix(data, magicPNG):
		c, err = png.DecodeConfig(bytes.NewReader(data))
	default:
		return 0, 0, ErrFormat
	}
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("the picture cannot be decoded: %w", err)
	case c.Width < 1 || c.Height < 1:
		return 0, 0, fmt.Errorf("the picture has %d x %d pixels", c.Width, c.Height)
	case c.Width > MaxPixels/c.Height:
		return 0, 0, fmt.Errorf("the picture has %d x %d pixels, which is more than %d", c.Width, c.Height, MaxPixels)
	}
	if n := countScans(data); n > 1 && n > maxScanned/(c.Height*c.Width) {
		return 0, 0, fmt.Errorf("the picture has %d scans of %d x %d pixels, want at most %d of that size", n, c.Width, c.Height, maxScanned/(c.Height*c.Width))
	}
	return c.Height, c.Width, nil
}

// countScans counts the scans of a JPEG as a decoder meets them: a marker in a segment is none. A PNG has none.
func countScans(data []byte) (n int) {
	if !bytes.HasPrefix(data, magicJPEG) {
		return 0
	}
	for at := len(magicJPEG) - 1; ; {
		next := bytes.IndexByte(data[at:], 0xff)
		if next < 0 || at+next+4 > len(data) {
			return n
		}
		switch marker := data[at+next+1]; {
		case marker == 0xff: // padding
			at += next + 1
		case marker == 0x00, 0xd0 <= marker && marker <= 0xd8: // of no length
			at += next + 2
		case marker == 0xd9: // the end of the picture
			return n
		default:
			if marker == 0xda {
				n++
			}
			at = min(len(data), at+next+2+max(2, int(data[at+next+2])<<8|int(data[at+next+3])))
		}
	}
}

// Memory is about how many bytes decoding takes for a picture of a size, at the most: a progressive JPEG's coefficients
// beside its samples.
func Memory(height, width int) int64 { return 16 * int64(height) * int64(width) }

// Decode decodes a JPEG or PNG. Transparency, and orientation in EXIF, are not looked at. Its errors are those of Size.
func Decode(data []byte) (*Picture, error) {
	m, err := DecodeImage(data)
	if err != nil {
		return nil, err
	}
	return FromImage(m), nil
}

// DecodeImage is Decode for those who want the pixels.
func DecodeImage(data []byte) (image.Image, error) {
	if _, _, err := Size(data); err != nil {
		return nil, err
	}
	var m image.Image
	var err error
	if bytes.HasPrefix(data, magicJPEG) {
		m, err = jpeg.Decode(bytes.NewReader(data))
	} else {
		m, err = png.Decode(bytes.NewReader(data))
	}
	if err != nil {
		return nil, fmt.Errorf("the picture cannot be decoded: %w", err)
	}
	return m, nil
}

// FromRGB is a picture of bytes in rows of red, green and blue.
func FromRGB(data []byte, height, width int) *Picture {
	return &Picture{Height: height, Width: width, row: func(y int, columns []int, into []byte) {
		pickPixels(data[3*width*y:][:3*width], 3, columns, into)
	}}
}

// pickPixels writes the first three bytes of pixels that are size apart.
func pickPixels(row []byte, size int, columns []int, into []byte) {
	for i, x := range columns {
		from, to := row[size*x:][:3], into[3*i:][:3]
		to[0], to[1], to[2] = from[0], from[1], from[2]
	}
}

// FromImage reads the kinds of images that decoders make in most cases by themselves, and others pixel by pixel.
func FromImage(m image.Image) *Picture {
	at := m.Bounds().Min
	p := &Picture{Height: m.Bounds().Dy(), Width: m.Bounds().Dx()}
	switch m := m.(type) {
	case *image.YCbCr:
		p.row = func(y int, columns []int, into []byte) {
			for i, x := range columns {
				luma, chroma := m.YOffset(at.X+x, at.Y+y), m.COffset(at.X+x, at.Y+y)
				into[3*i], into[3*i+1], into[3*i+2] = color.YCbCrToRGB(m.Y[luma], m.Cb[chroma], m.Cr[chroma])
			}
		}
	case *image.Gray:
		p.row = func(y int, columns []int, into []byte) {
			for i, x := range columns {
				v := m.Pix[y*m.Stride+x]
				into[3*i], into[3*i+1], into[3*i+2] = v, v, v
			}
		}
	case *image.RGBA: // of PNG: without transparency
		p.row = func(y int, columns []int, into []byte) { pickPixels(m.Pix[y*m.Stride:], 4, columns, into) }
	case *image.NRGBA:
		p.row = func(y int, columns []int, into []byte) { pickPixels(m.Pix[y*m.Stride:], 4, columns, into) }
	default:
		p.row = func(y int, columns []int, into []byte) {
			for i, x := range columns {
				c := color.NRGBAModel.Convert(m.At(at.X+x, at.Y+y)).(color.NRGBA)
				into[3*i], into[3*i+1], into[3*i+2] = c.R, c.G, c.B
			}
		}
	}
	return p
}
