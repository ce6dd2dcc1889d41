package vision

import (
	"cmp"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func logit(p float32) float32 { return float32(math.Log(float64(p) / (1 - float64(p)))) }
func ln(x float32) float32    { return float32(math.Log(float64(x))) }

// thing is a box that a network is made to say.
type thing struct {
	box   Box
	class int
	score float32
}

// encoder writes outputs that say where things are; each thing is at a place of its own.
type encoder func(in Size, things []thing) []Output

const classes = 7

func (b Box) middle() (x, y, w, h float32) {
	return (b.X0 + b.X1) / 2, (b.Y0 + b.Y1) / 2, b.X1 - b.X0, b.Y1 - b.Y0
}

func encodeYOLOX(in Size, things []thing) []Output {
	places := mapCells(in, 8, 16, 32)
	out := Output{"out", []int{1, len(places), 5 + classes}, make([]float32, len(places)*(5+classes))}
	for i, t := range things {
		at := (7 + 13*i) % len(places)
		v, p := out.Data[at*(5+classes):], places[at]
		x, y, w, h := t.box.middle()
		v[0], v[1], v[2], v[3], v[4] = x/p.stride-p.x, y/p.stride-p.y, ln(w/p.stride), ln(h/p.stride), 0.9
		v[5+t.class] = t.score / 0.9
	}
	return []Output{out}
}

func encodeFastestDet(in Size, things []thing) []Output {
	h, w := in.Height/16, in.Width/16
	out := Output{"out", []int{1, 5 + classes, h, w}, make([]float32, (5+classes)*h*w)}
	for _, t := range things {
		x, y, bw, bh := t.box.middle()
		px, py := x/float32(in.Width)*float32(w), y/float32(in.Height)*float32(h)
		at := int(py)*w + int(px)
		set := func(k int, v float32) { out.Data[k*h*w+at] = v }
		atanh := func(v float32) float32 { return float32(math.Atanh(float64(v))) }
		set(0, t.score)
		set(1, atanh(px-float32(int(px))))
		set(2, atanh(py-float32(int(py))))
		set(3, logit(bw/float32(in.Width)))
		set(4, logit(bh/float32(in.Height)))
		set(5+t.class, t.score)
	}
	return []Output{out}
}

// distances writes a distribution whose mean is a distance: all of it on the two nearest numbers.
func distances(to []float32, d float32) {
	for i := range to {
		to[i] = -40
	}
	low := min(int(d), len(to)-2)
	share := min(max(d-float32(low), 1e-6), 1-1e-6)
	to[low], to[low+1] = ln(1-share), ln(share)
}

// encodeGFL writes two outputs a stride, or one of all with distributions of 8 values.
func encodeGFL(one bool) encoder {
	return func(in Size, things []thing) []Output {
		strides, middle := yoloxStrides, float32(0.5)
		if one {
			strides, middle = nanoDetStrides, 0
		}
		var outputs []Output
		var all []float32
		for _, s := range strides {
			places := mapCells(in, s)
			const n = 8
			scores, sides := make([]float32, len(places)*classes), make([]float32, len(places)*4*n)
			for _, t := range things {
				if s != 32 {
					continue
				}
				x, y, _, _ := t.box.middle()
				at := int(y/32+0.5-middle)*((in.Width+31)/32) + int(x/32+0.5-middle)
				px, py := (places[at].x+middle)*32, (places[at].y+middle)*32
				scores[at*classes+t.class] = t.score
				for k, d := range []float32{px - t.box.X0, py - t.box.Y0, t.box.X1 - px, t.box.Y1 - py} {
					distances(sides[at*4*n+k*n:at*4*n+(k+1)*n], d/32)
				}
			}
			if !one {
				outputs = append(outputs, Output{"scores", []int{1, len(places), classes}, scores}, Output{"sides", []int{1, len(places), 4 * n}, sides})
			}
			for i := range places {
				all = append(append(all, scores[i*classes:(i+1)*classes]...), sides[i*4*n:(i+1)*4*n]...)
			}
		}
		if one {
			return []Output{{"out", []int{1, len(all) / (classes + 32), classes + 32}, all}}
		}
		return outputs
	}
}

func encodeSSD(in Size, things []thing) []Output {
	const n = 100
	scores, boxes := Output{"scores", []int{1, n, 1 + classes}, make([]float32, n*(1+classes))}, Output{"boxes", []int{1, n, 4}, make([]float32, 4*n)}
	w, h := float32(in.Width), float32(in.Height)
	for i, t := range things {
		scores.Data[(3*i)*(1+classes)+1+t.class] = t.score
		copy(boxes.Data[4*3*i:], []float32{t.box.X0 / w, t.box.Y0 / h, t.box.X1 / w, t.box.Y1 / h})
	}
	return []Output{scores, boxes}
}

func encodeYuNet(in Size, things []thing) []Output {
	var outputs []Output
	for _, s := range []int{8, 16, 32} {
		places := mapCells(in, s)
		cls, obj, bbox := make([]float32, len(places)), make([]float32, len(places)), make([]float32, 4*len(places))
		for i, t := range things {
			if s != 16 {
				continue
			}
			at := 5 * i
			x, y, w, h := t.box.middle()
			p := places[at]
			cls[at], obj[at] = t.score, t.score
			copy(bbox[4*at:], []float32{x/p.stride - p.x, y/p.stride - p.y, ln(w / p.stride), ln(h / p.stride)})
		}
		name := map[int]string{8: "8", 16: "16", 32: "32"}[s]
		outputs = append(outputs, Output{"cls_" + name, []int{1, len(places), 1}, cls}, Output{"obj_" + name, []int{1, len(places), 1}, obj}, Output{"bbox_" + name, []int{1, len(places), 4}, bbox})
	}
	return outputs
}

// TestDecodersFindWhatIsThere: boxes that an encoder has written into outputs are found again, each once.
func TestDecodersFindWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		decoder string
		encode  encoder
		one     bool // class
	}{
		{"yolox", encodeYOLOX, false}, {"fastestdet", encodeFastestDet, false}, {"gfl", encodeGFL(false), false},
		{"gfl", encodeGFL(true), false}, {"ssd", encodeSSD, false}, {"yunet", encodeYuNet, true},
	} {
		random := rand.New(rand.NewPCG(3, 4))
		for range 50 {
			in := Size{32 * (4 + random.IntN(12)), 32 * (4 + random.IntN(12))}
			var things []thing
			for i := range 1 + random.IntN(4) {
				x, y := float32(20+40*(i%2)+random.IntN(3)), float32(20+48*(i/2)+random.IntN(3))
				th := thing{Box{x, y, x + 30 + random.Float32(), y + 34 + random.Float32()}, random.IntN(classes), 0.5 + 0.4*random.Float32()}
				if c.one {
					th.class = 0
				}
				things = append(things, th)
			}
			d, err := Find(c.decoder)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Decode(c.encode(in, things), Options{Input: in})
			if err != nil || len(got.Detections) != len(things) {
				t.Fatalf("%s, %v: %d things found of %d, %v", c.decoder, in, len(got.Detections), len(things), err)
			}
			slices.SortFunc(things, func(a, b thing) int { return cmp.Compare(b.score, a.score) })
			for i, want := range things {
				found := got.Detections[i]
				if IoU(found.Box, want.box) < 0.98 || found.Class != want.class || math.Abs(float64(found.Score-want.score)) > 1e-3 || found.Label == "" && found.Class == 0 {
					t.Fatalf("%s: found %+v, want %+v", c.decoder, found, want)
				}
			}
		}
	}
}

// TestYuNetOfPriors: a face at a prior is found there.
func TestYuNetOfPriors(t *testing.T) {
	in := Size{120, 160}
	n := 0
	for level, sizes := range priorSizes {
		n += ((in.Height + 1) / 2 / 2 >> (level + 1)) * ((in.Width + 1) / 2 / 2 >> (level + 1)) * len(sizes)
	}
	loc, conf, iou := make([]float32, 14*n), make([]float32, 2*n), make([]float32, n)
	at := 3*(7*20+5) + 2 // place 5, 7 of stride 8, 24 pixels wide
	conf[2*at+1], iou[at] = 0.81, 1
	loc[14*at], loc[14*at+2] = 2, 5*ln(2)
	outputs := []Output{{"loc", []int{1, n, 14}, loc}, {"conf", []int{1, n, 2}, conf}, {"iou", []int{1, n, 1}, iou}}
	d, _ := Find("yunet")
	got, err := d.Decode(outputs, Options{Input: in})
	want := centredBox(44+2*0.1*24, 60, 48, 24)
	if err != nil || len(got.Detections) != 1 || IoU(got.Detections[0].Box, want) < 0.999 || got.Detections[0].Label != "face" || math.Abs(float64(got.Detections[0].Score)-0.9) > 1e-5 {
		t.Errorf("found %+v, %v, want %v", got, err, want)
	}
}

// TestSegmentation: the greatest score of each pixel is its class, wherever the classes are.
func TestSegmentation(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	d, _ := Find("segmentation")
	for _, last := range []bool{false, true} {
		const h, w = 11, 13
		first, other := make([]float32, 4*h*w), make([]float32, 4*h*w)
		want := make([]uint8, h*w)
		for i := range want {
			var scores [4]float32
			for c := range scores {
				scores[c] = random.Float32()
				first[c*h*w+i], other[i*4+c] = scores[c], scores[c]
			}
			class, _ := bestClass(scores[:])
			want[i] = uint8(class)
		}
		out := Output{"out", []int{1, 4, h, w}, first}
		if last {
			out = Output{"out", []int{1, h, w, 4}, other}
		}
		got, err := d.Decode([]Output{out}, Options{Input: Size{h, w}})
		if err != nil || got.Mask.Size != (Size{h, w}) || !slices.Equal(got.Mask.Class, want) || got.Mask.Labels[1] != "road" {
			t.Fatalf("classes last: %t: %+v, %v", last, got.Mask, err)
		}
		got.Mask.Crop(7, 5)
		if got.Mask.Size != (Size{7, 5}) || !slices.Equal(got.Mask.Class[5:10], want[w:w+5]) {
			t.Errorf("cut to 7 x 5 it is %+v", got.Mask)
		}
		sum := 0.0
		for _, share := range got.Mask.Shares() {
			sum += share
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("the shares are %v", got.Mask.Shares())
		}
	}
}

// suppressed is Suppress by the definition: the best of all is kept and takes away what it covers, until none is left.
func suppressed(all []Detection, iou float32, most int) (kept []Detection) {
	left := slices.Clone(all)
	for len(left) > 0 && len(kept) < most {
		top := 0
		for i := range left {
			if left[i].Score > left[top].Score {
				top = i
			}
		}
		d := left[top]
		kept = append(kept, d)
		left = slices.Delete(left, top, top+1)
		left = slices.DeleteFunc(left, func(o Detection) bool { return o.Class == d.Class && IoU(o.Box, d.Box) > iou })
	}
	return kept
}

func TestSuppress(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		var all []Detection
		for range random.IntN(40) {
			x, y := 20*random.Float32(), 20*random.Float32()
			all = append(all, Detection{Box: Box{x, y, x + 10*random.Float32(), y + 10*random.Float32()}, Class: random.IntN(2), Score: random.Float32()})
		}
		iou, most := random.Float32(), 1+random.IntN(20)
		want := suppressed(all, iou, most)
		if got := Suppress(all, iou, most); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestIoU(t *testing.T) {
	for _, c := range []struct {
		a, b Box
		want float32
	}{
		{Box{0, 0, 2, 2}, Box{0, 0, 2, 2}, 1}, {Box{0, 0, 2, 2}, Box{1, 0, 3, 2}, 1. / 3}, {Box{0, 0, 1, 1}, Box{1, 1, 2, 2}, 0},
		{Box{0, 0, 4, 4}, Box{1, 1, 3, 3}, 0.25}, {Box{2, 2, 0, 0}, Box{0, 0, 2, 2}, 0}, {Box{}, Box{}, 0},
	} {
		if got := IoU(c.a, c.b); math.Abs(float64(got-c.want)) > 1e-6 {
			t.Errorf("IoU(%v, %v) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestUnknownDecodersAndUnfitOutputsAreRefused(t *testing.T) {
	if _, err := Find("yolo"); err == nil || !strings.Contains(err.Error(), "yolox, fastestdet") {
		t.Errorf("Find: %v", err)
	}
	zeros := func(shape ...int) Output {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return Output{"o", shape, make([]float32, n)}
	}
	ones := func(a, b, c int, value float32) Output {
		out := zeros(a, b, c)
		for i := range out.Data {
			out.Data[i] = value
		}
		return out
	}
	for _, c := range []struct {
		decoder, want string
		outputs       []Output
	}{
		{"yolox", "there are 0", nil},
		{"yolox", "5 values a box", []Output{zeros(1, 3549, 5)}},
		{"yolox", "3548 boxes are not those of an input of 416 x 416", []Output{zeros(1, 3548, 85)}},
		{"yolox", "[1 2 3549 85]", []Output{zeros(2, 3549, 85)}},
		{"yolox", "[1 -1 85]", []Output{{"o", []int{1, -1, 85}, nil}}},
		{"fastestdet", "[1 5 22 22]", []Output{zeros(1, 5, 22, 22)}},
		{"gfl", "not pairs", []Output{zeros(1, 10, 80), zeros(1, 20, 32)}},
		{"gfl", "not scores and 32 of distances", []Output{zeros(1, 10, 32)}},
		{"gfl", "3549 boxes are not those of an input of 416 x 416 (height x width): 3598 at strides [8 16 32 64] are", []Output{zeros(1, 3549, 85)}},
		{"yolox", "a score is 4, and scores are to be probabilities", []Output{ones(1, 3549, 85, 2)}},
		{"ssd", "scores [1, N, classes] and boxes", []Output{zeros(1, 10, 4)}},
		{"yunet", "output cls_8 is to have 2704 rows", []Output{zeros(1, 10, 4)}},
		{"segmentation", "1 classes", []Output{zeros(1, 1, 5, 5)}},
	} {
		d, _ := Find(c.decoder)
		if _, err := d.Decode(c.outputs, Options{Input: Size{416, 416}}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.decoder) {
			t.Errorf("%s: got %v, want %q", c.decoder, err, c.want)
		}
	}
}

// FuzzDecode: whatever a network says, its decoder does not fail otherwise than by an error, and finds what is in the
// picture alone.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(0), uint16(64), uint16(96), uint64(1), uint8(1))
	f.Add(uint8(4), uint16(120), uint16(160), uint64(2), uint8(3))
	f.Fuzz(func(t *testing.T, which uint8, h, w uint16, seed uint64, count uint8) {
		random := rand.New(rand.NewPCG(seed, 1))
		in := Size{int(h % 300), int(w % 300)}
		values := []float32{0, 1, -1, 0.5, 90, -90, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}
		n := len(mapCells(in, 8, 16, 32))
		var outputs []Output
		for i := range count % 13 {
			shape := []int{1}
			for range 1 + random.IntN(3) {
				shape = append(shape, []int{random.IntN(9), 4, 14, 32, 85, n, len(mapCells(in, 8))}[random.IntN(7)])
			}
			size := 1
			for _, d := range shape {
				size *= d
			}
			if size > 1<<18 {
				continue
			}
			out := Output{[]string{"loc", "conf", "iou", "cls_8", "obj_8", "bbox_8", "x"}[int(i)%7], shape, make([]float32, size)}
			for k := range out.Data {
				out.Data[k] = values[random.IntN(len(values))]
			}
			outputs = append(outputs, out)
		}
		d := &decoders[int(which)%len(decoders)]
		r, err := d.Decode(outputs, Options{Input: in})
		if err != nil {
			return
		}
		for _, found := range r.Detections {
			if b := found.Box; !(b.X0 >= 0 && b.Y0 >= 0 && b.X1 <= float32(in.Width) && b.Y1 <= float32(in.Height)) || !(found.Score >= DefaultScore && found.Score <= 1) {
				t.Fatalf("%s found %+v in %v", d.Name, found, in)
			}
		}
	})
}

// TestPlace: of a box that is half in the part that the picture has filled, that half is told, in its pixels.
func TestPlace(t *testing.T) {
	r := Result{Detections: []Detection{{Box: Box{10, 10, 30, 50}}, {Box: Box{0, 45, 5, 60}, Class: 1}}}
	r.Place(Size{40, 20}, Size{80, 10})
	if len(r.Detections) != 1 || r.Detections[0].Box != (Box{5, 20, 10, 80}) {
		t.Errorf("%+v", r.Detections)
	}
}

// TestDraw: a box's edge and a mask are seen, and the rest of the picture stays as it is.
func TestDraw(t *testing.T) {
	picture := image.NewGray(image.Rect(10, 20, 110, 100))
	r := &Result{Detections: []Detection{{Box: Box{20, 30, 60, 70}, Label: "car", Score: 0.5}, {Box: Box{-5, -5, 500, 500}, Class: 3, Score: 0.4}}}
	got := Draw(picture, r)
	if got.Bounds() != image.Rect(0, 0, 100, 80) || got.RGBAAt(40, 30) != classColour(0) || got.RGBAAt(40, 50) != (color.RGBA{0, 0, 0, 255}) {
		t.Errorf("%v: the edge is %v, inside is %v", got.Bounds(), got.RGBAAt(40, 30), got.RGBAAt(40, 50))
	}
	mask := &Result{Mask: &Mask{Size: Size{2, 2}, Class: []uint8{0, 1, 0, 0}}}
	got = Draw(picture, mask)
	if c := classColour(1); got.RGBAAt(90, 10) != (color.RGBA{c.R / 2, c.G / 2, c.B / 2, 255}) || got.RGBAAt(10, 10).R != 0 {
		t.Errorf("the mask's corner is %v", got.RGBAAt(90, 10))
	}
}
