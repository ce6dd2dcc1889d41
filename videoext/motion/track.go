package motion

import (
	"math"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
)

// The tracker is the kernelised correlation filter of Henriques and others, "High-Speed Tracking with Kernelized Correlation Filters"
// (TPAMI 2015), over luma, with the constants that its table 2 has for raw pixels. Each thing is also looked for a little larger and
// smaller.
const (
	side      = 64   // of the patch that a thing and what is around it are scaled to
	padding   = 2.5  // of the patch by the thing
	bandwidth = 0.2  // of the Gaussian kernel
	ridge     = 1e-4 // regularisation
	learning  = 0.075
	spread    = 0.1 // of the wanted response, by the thing's side
	// lost is the correlation with what it looked like below which a thing is taken to be gone.
	lost = 0.4
)

// scales are those at which a thing is looked for; a penalty keeps the same one where they are alike.
var scales = [...]struct{ by, worth float64 }{{1, 1}, {1.05, 0.98}, {1 / 1.05, 0.98}}

// Track finds things of one frame in later ones, in order. What is not found again is left out from there on.
func Track(from *media.Frame, things []videoext.Detection, to []*media.Frame) [][]videoext.Detection {
	found := make([][]videoext.Detection, len(to))
	t := newTransform()
	for _, thing := range things {
		f := newFilter(t, lumaOf(from), thing.Region)
		for i, frame := range to {
			region, ok := f.trackNextFrame(lumaOf(frame))
			if !ok {
				break
			}
			moved := thing
			moved.Region = region
			found[i] = append(found[i], moved)
		}
	}
	return found
}

// filter is what one thing looks like.
type filter struct {
	t          *transform
	x, y, w, h float64   // the thing's centre and size, in pixels
	model      []float64 // its patch
	alpha      spectrum
	wanted     spectrum
}

func newFilter(t *transform, l luma, r videoext.Region) *filter {
	f := &filter{t: t}
	width, height := float64(l.width), float64(l.height)
	f.x, f.y = float64(r.X0+r.X1)/2*width, float64(r.Y0+r.Y1)/2*height
	f.w, f.h = max(float64(r.X1-r.X0)*width, 4), max(float64(r.Y1-r.Y0)*height, 4)
	f.wanted = t.transformForward(targetResponse())
	f.model = f.extractPatch(l, 1)
	f.alpha = f.learnAlpha(f.model)
	return f
}

// targetResponse is what the filter is to answer to a patch: a peak at its origin.
func targetResponse() []float64 {
	out := make([]float64, side*side)
	sigma := spread * side / padding
	for y := range side {
		for x := range side {
			dx, dy := wrapShift(x), wrapShift(y)
			out[y*side+x] = math.Exp(-(dx*dx + dy*dy) / (2 * sigma * sigma))
		}
	}
	return out
}

// wrapShift is a shift along a side that is a ring.
func wrapShift(i int) float64 {
	if i > side/2 {
		i -= side
	}
	return float64(i)
}

// extractPatch is what is around the thing, in a window that fades to the edges.
func (f *filter) extractPatch(l luma, scale float64) []float64 {
	out := make([]float64, side*side)
	sx, sy := f.w*padding*scale/side, f.h*padding*scale/side
	sum := 0.0
	for y := range side {
		for x := range side {
			v := sampleLuma(l, f.x+(float64(x)-side/2+0.5)*sx, f.y+(float64(y)-side/2+0.5)*sy) / 255
			out[y*side+x] = v
			sum += v
		}
	}
	mean := sum / float64(len(out))
	for y := range side {
		for x := range side {
			out[y*side+x] = (out[y*side+x] - mean) * window[y] * window[x]
		}
	}
	return out
}

var window = func() (w [side]float64) {
	for i := range w {
		w[i] = 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/(side-1))
	}
	return w
}()

// sampleLuma is the luma at a place between pixels; beyond the frame it is that of the nearest.
func sampleLuma(l luma, x, y float64) float64 {
	x, y = min(max(x-0.5, 0), float64(l.width-1)), min(max(y-0.5, 0), float64(l.height-1))
	x0, y0 := int(x), int(y)
	x1, y1 := min(x0+1, l.width-1), min(y0+1, l.height-1)
	fx, fy := x-float64(x0), y-float64(y0)
	up, down := l.row(y0), l.row(y1)
	return (float64(up[x0])*(1-fx)+float64(up[x1])*fx)*(1-fy) + (float64(down[x0])*(1-fx)+float64(down[x1])*fx)*fy
}

// kernel compares one patch with another at all shifts, by a Gaussian of their distance (equation 31).
func (f *filter) kernel(a, b []float64) []float64 {
	fa, fb := f.t.transformForward(a), f.t.transformForward(b)
	for i := range fa {
		fa[i] *= conjugate(fb[i])
	}
	cross := f.t.transformInverse(fa)
	norm := dot(a, a) + dot(b, b)
	for i, c := range cross {
		cross[i] = math.Exp(-max(0, (norm-2*c)/float64(len(a))) / (bandwidth * bandwidth))
	}
	return cross
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// learnAlpha finds the filter that answers to a patch as wanted (equation 17).
func (f *filter) learnAlpha(patch []float64) spectrum {
	k := f.t.transformForward(f.kernel(patch, patch))
	alpha := make(spectrum, len(k))
	for i := range k {
		alpha[i] = f.wanted[i] / (k[i] + ridge)
	}
	return alpha
}

// trackNextFrame finds the thing in the next frame, and learns how it looks there.
func (f *filter) trackNextFrame(l luma) (r videoext.Region, ok bool) {
	best, scale, dx, dy := 0.0, 1.0, 0.0, 0.0
	for _, s := range scales {
		peak, x, y := f.peakResponse(f.extractPatch(l, s.by))
		if peak *= s.worth; peak > best {
			best, scale, dx, dy = peak, s.by, x, y
		}
	}
	f.x += dx * f.w * padding * scale / side
	f.y += dy * f.h * padding * scale / side
	f.w, f.h = f.w*scale, f.h*scale
	r = f.currentRegion(l)
	patch := f.extractPatch(l, 1)
	if alike := dot(patch, f.model) / math.Sqrt(dot(patch, patch)*dot(f.model, f.model)); !(alike >= lost) || r.Area() <= 0 {
		return r, false
	}
	alpha := f.learnAlpha(patch)
	for i := range f.model {
		f.model[i] += learning * (patch[i] - f.model[i])
		f.alpha[i] += complex(learning, 0) * (alpha[i] - f.alpha[i])
	}
	return r, true
}

// peakResponse is the greatest response to a patch, and at which shift (equation 22).
func (f *filter) peakResponse(patch []float64) (peak, dx, dy float64) {
	k := f.t.transformForward(f.kernel(patch, f.model))
	for i := range k {
		k[i] *= f.alpha[i]
	}
	at := 0
	response := f.t.transformInverse(k)
	for i, v := range response {
		if v > response[at] {
			at = i
		}
	}
	x, y := at%side, at/side
	left, right := response[y*side+(x+side-1)%side], response[y*side+(x+1)%side]
	up, down := response[(y+side-1)%side*side+x], response[(y+1)%side*side+x]
	return response[at], wrapShift(x) + parabolaVertex(left, response[at], right), wrapShift(y) + parabolaVertex(up, response[at], down)
}

// parabolaVertex is where between its neighbours a peak is, by the parabola through them.
func parabolaVertex(before, peak, after float64) float64 {
	d := 2*peak - before - after
	if d <= 0 {
		return 0
	}
	return 0.5 * (after - before) / d
}

// currentRegion is where the thing is, as far as that is in the frame.
func (f *filter) currentRegion(l luma) videoext.Region {
	w, h := float64(l.width), float64(l.height)
	return videoext.Whole.Intersect(videoext.Region{
		X0: float32((f.x - f.w/2) / w), Y0: float32((f.y - f.h/2) / h),
		X1: float32((f.x + f.w/2) / w), Y1: float32((f.y + f.h/2) / h),
	})
}
