package course

import (
	"testing"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

func TestCourse(t *testing.T) {
	var c Course
	for n := range Most + 5 {
		c.Came(Segment{Number: method.Segment(n), Bytes: n})
	}
	c.Came(Segment{Number: 30, Bytes: -1})
	c.Differentiated(2, oneadapt.NewMap(1, 1)) // it is gone
	c.Differentiated(Most, &oneadapt.Map{Width: 2, Height: 1, Values: []float32{8, 4}, Utility: 3.5})
	all := c.After(-1)
	if len(all) != Most || all[0].Number != 5 || all[25].Bytes != 30 {
		t.Fatalf("%d segments from %+v", len(all), all[0])
	}
	if s := c.After(Most - 1)[0]; *s.Found != 3.5 || s.Gradient.Values[0] != 15 || s.Gradient.Values[1] != 13 || s.Gradient.Mean != 14 {
		t.Errorf("%+v, %+v", s, s.Gradient)
	}
	if late := c.After(Most + 4); len(late) != 0 {
		t.Errorf("behind the last: %+v", late)
	}
	if g := Quantisers(&media.QPMap{Columns: 2, Rows: 1, QP: []uint8{24, 36}}); g.Mean != 30 || Quantisers(nil) != nil {
		t.Errorf("%+v", g)
	}
}
