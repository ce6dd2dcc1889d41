package local

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/merging"
)

func randomPicture(random *rand.Rand, height, width int) picture {
	p := picture{height, width, make([]byte, 3*height*width)}
	for i := range p.rgb {
		p.rgb[i] = byte(random.IntN(256))
	}
	return p
}

// TestViewsAreAsNamed, and leave the feed's own frame as it is.
func TestViewsAreAsNamed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := randomPicture(random, 40, 50)
	was := bytes.Clone(p.rgb)
	dark, mirrored, noisy := view(p, merging.HeldOutDark, random), view(p, merging.HeldOutMirrored, random), view(p, merging.HeldOutNoisy, random)
	square := 0.0
	for y := range p.height {
		for x := range p.width {
			for c := range 3 {
				at, other := 3*(y*p.width+x)+c, 3*(y*p.width+p.width-1-x)+c
				if d := int(dark.rgb[at])*2 - int(was[at]); d < 0 || d > 1 {
					t.Fatalf("%d is %d at half the light", was[at], dark.rgb[at])
				}
				if mirrored.rgb[at] != was[other] {
					t.Fatalf("%d, %d: got %d mirrored, want %d", x, y, mirrored.rgb[at], was[other])
				}
				if was[at] > 100 && was[at] < 155 {
					square += math.Pow(float64(noisy.rgb[at])-float64(was[at]), 2)
				}
			}
		}
	}
	if deviation := math.Sqrt(square / (6000 * 54. / 256)); deviation < 17 || deviation > 23 {
		t.Errorf("the noise has a deviation of %.1f, want 20", deviation)
	}
	if !bytes.Equal(p.rgb, was) {
		t.Error("the feed's frame changed")
	}
}

func TestBlurIsTheMeanAround(t *testing.T) {
	p := picture{3, 3, make([]byte, 27)}
	p.rgb[3*4] = 90 // red, in the middle
	p.blurPicture()
	for i, want := range []byte{23, 15, 23, 15, 10, 15, 23, 15, 23} {
		if p.rgb[3*i] != want || p.rgb[3*i+1] != 0 {
			t.Errorf("pixel %d is %v, want %d red", i, p.rgb[3*i:3*i+3], want)
		}
	}
}

// TestSomeFramesStayAsTheyAre, and each seed alters them in its way.
func TestSomeFramesStayAsTheyAre(t *testing.T) {
	p := randomPicture(rand.New(rand.NewPCG(1, 2)), 6, 8)
	was, same := bytes.Clone(p.rgb), 0
	for seed := range uint64(1000) {
		a, b := alterPicture(p, rand.New(rand.NewPCG(seed, 0))), alterPicture(p, rand.New(rand.NewPCG(seed, 0)))
		if !bytes.Equal(a.rgb, b.rgb) || !bytes.Equal(p.rgb, was) {
			t.Fatalf("seed %d alters a frame in two ways, or the feed's own", seed)
		}
		if bytes.Equal(a.rgb, was) {
			same++
		}
	}
	if same < 150 || same > 250 {
		t.Errorf("%d of 1000 frames stay as they are, want about 200", same)
	}
}

// TestZoomScalesAroundAPoint: of a ramp, which is as steep as it is near; beyond its edges the last pixel goes on.
func TestZoomScalesAroundAPoint(t *testing.T) {
	for _, factor := range []float64{1, 2, 0.5} {
		p := picture{9, 11, make([]byte, 3*99)}
		for i := range 99 {
			p.rgb[3*i], p.rgb[3*i+1] = byte(20*(i%11)), byte(20*(i/11))
		}
		p.zoomPicture(factor, 0.4, 0.6)
		for i := range 99 {
			for c, around := range []float64{0.4 * 11, 0.6 * 9} {
				size, at := []int{11, 9}[c], []int{i % 11, i / 11}[c]
				want := 20 * min(max(around+(float64(at)-around)/factor, 0), float64(size-1))
				if got := float64(p.rgb[3*i+c]); math.Abs(got-want) > 1 {
					t.Fatalf("scaled by %v, pixel %d: got %v, want %v", factor, i, got, want)
				}
			}
		}
	}
	for _, p := range []picture{{1, 5, make([]byte, 15)}, {5, 1, make([]byte, 15)}} {
		p.zoomPicture(1.2, 0.5, 0.5) // as it is
	}
}
