package live

import (
	"testing"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

func TestCourse(t *testing.T) {
	var c segmentHistory
	for n := range mostSegments + 5 {
		c.addSegment(Segment{Number: method.Segment(n), Bytes: n})
	}
	c.addSegment(Segment{Number: 30, Bytes: -1})
	c.addGradient(2, oneadapt.NewMap(1, 1)) // it is gone
	c.addGradient(mostSegments, &oneadapt.Map{Width: 2, Height: 1, Values: []float32{8, 4}, Utility: 3.5})
	all := c.after(-1)
	if len(all) != mostSegments || all[0].Number != 5 || all[25].Bytes != 30 {
		t.Fatalf("%d segments from %+v", len(all), all[0])
	}
	if s := c.after(mostSegments - 1)[0]; *s.Found != 3.5 || s.Gradient.Values[0] != 15 || s.Gradient.Values[1] != 13 || s.Gradient.Mean != 14 {
		t.Errorf("%+v, %+v", s, s.Gradient)
	}
	if late := c.after(mostSegments + 4); len(late) != 0 {
		t.Errorf("behind the last: %+v", late)
	}
	if g := quantiserGrid(&media.QPMap{Columns: 2, Rows: 1, QP: []uint8{24, 36}}); g.Mean != 30 || quantiserGrid(nil) != nil {
		t.Errorf("%+v", g)
	}
}
