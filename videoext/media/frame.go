package media

import (
	"fmt"
	"time"
)

// Matrix is the standard by which colours became luma and chroma.
type Matrix uint8

const (
	BT601 Matrix = iota // standard definition, and what is not said
	BT709               // high definition
)

// Frame is a picture of YUV 4:2:0 in 8 bits of limited range: luma is 16 to 235, chroma 16 to 240 about 128.
// The planes of chroma have ceil(Width/2) x ceil(Height/2) samples.
type Frame struct {
	Width, Height    int
	Y, Cb, Cr        []byte
	YStride, CStride int // bytes from a row to the next
	Matrix           Matrix
	Index            int           // in the source, from 0
	Time             time.Duration // since the source began; it grows from frame to frame
	Broken           bool          // what the source says of time does not follow what it said before; Time goes on
}

// NewFrame makes a frame of zeros, a green one, whose rows are without gaps.
func NewFrame(width, height int) *Frame {
	cw, ch := (width+1)/2, (height+1)/2
	luma, chroma := width*height, cw*ch
	planes := make([]byte, luma+2*chroma)
	return &Frame{
		Width: width, Height: height, YStride: width, CStride: cw,
		Y: planes[:luma:luma], Cb: planes[luma:][:chroma:chroma], Cr: planes[luma+chroma:],
	}
}

// CheckSize says what is wrong with the size of a frame.
func CheckSize(width, height int) error {
	switch {
	case width < 1 || height < 1:
		return fmt.Errorf("a frame has %d x %d pixels", width, height)
	case width > MaxPixels/height:
		return fmt.Errorf("a frame has %d x %d pixels, which is more than %d", width, height, MaxPixels)
	}
	return nil
}

// Check says what is wrong with the frame's size and planes.
func (f *Frame) Check() error {
	if err := CheckSize(f.Width, f.Height); err != nil {
		return err
	}
	cw, ch := (f.Width+1)/2, (f.Height+1)/2
	for _, p := range []struct {
		name                  string
		plane                 []byte
		stride, width, height int
	}{{"Y", f.Y, f.YStride, f.Width, f.Height}, {"Cb", f.Cb, f.CStride, cw, ch}, {"Cr", f.Cr, f.CStride, cw, ch}} {
		if p.stride < p.width || len(p.plane) < p.stride*(p.height-1)+p.width {
			return fmt.Errorf("plane %s of a frame of %d x %d pixels has %d bytes in rows of %d", p.name, f.Width, f.Height, len(p.plane), p.stride)
		}
	}
	return nil
}

// Clone copies the frame, into rows without gaps.
func (f *Frame) Clone() *Frame {
	c := NewFrame(f.Width, f.Height)
	c.Matrix, c.Index, c.Time, c.Broken = f.Matrix, f.Index, f.Time, f.Broken
	copyPlane(c.Y, c.YStride, f.Y, f.YStride, f.Width, f.Height)
	copyPlane(c.Cb, c.CStride, f.Cb, f.CStride, c.CStride, (f.Height+1)/2)
	copyPlane(c.Cr, c.CStride, f.Cr, f.CStride, c.CStride, (f.Height+1)/2)
	return c
}

func copyPlane(to []byte, toStride int, from []byte, fromStride, width, height int) {
	for y := range height {
		copy(to[y*toStride:][:width], from[y*fromStride:][:width])
	}
}
