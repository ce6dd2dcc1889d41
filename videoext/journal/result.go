package journal

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// Result is the JSON of what was found in a frame.
type Result struct {
	Stream  string       `json:"stream"`
	Number  uint64       `json:"number"`
	Segment int          `json:"segment"`
	Frame   int          `json:"frame"`
	Of      int          `json:"of"`
	Time    float64      `json:"time"` // seconds in the source, which only go on
	Broken  bool         `json:"discontinuity,omitempty"`
	Final   bool         `json:"final"`
	Boxes   []box        `json:"boxes"`
	Mask    []share      `json:"mask,omitempty"`
	Regions [][4]float32 `json:"regions,omitempty"`
	Latency float64      `json:"latency_ms"`
	Late    bool         `json:"late,omitempty"`
	Dropped string       `json:"dropped,omitempty"` // why the network did not see it
}

type box struct {
	Box   [4]float32 `json:"box"` // x0, y0, x1, y1 as parts of the frame
	Class int        `json:"class"`
	Label string     `json:"label,omitempty"`
	Score float32    `json:"score"`
}

// share is how much of the frame a class of pixels has.
type share struct {
	Class int     `json:"class"`
	Label string  `json:"label,omitempty"`
	Share float64 `json:"share"`
}

func regionCorners(r videoext.Region) [4]float32 { return [4]float32{r.X0, r.Y0, r.X1, r.Y1} }

// Line is a result as a line of JSON; of a mask, it has these classes alone, or all if there are none. Label names a class; empty: it has no name.
func Line(stream string, classes []int, r *streams.Result, label func(class int) string) ([]byte, error) {
	out := Result{
		Stream: stream, Number: r.Number, Segment: int(r.Segment), Frame: r.Frame, Of: r.Of, Time: r.Time.Seconds(), Broken: r.Discontinuity, Final: r.Final, Boxes: []box{},
		Latency: float64(r.Latency.Round(10*time.Microsecond)) / float64(time.Millisecond), Late: r.Late, Dropped: r.Why,
	}
	for _, d := range r.Findings.Detections {
		out.Boxes = append(out.Boxes, box{regionCorners(d.Region), d.Class, label(d.Class), d.Score})
	}
	for _, region := range r.Regions {
		out.Regions = append(out.Regions, regionCorners(region))
	}
	if m := r.Findings.Mask; m != nil && len(m.Class) > 0 {
		var count [256]int
		for _, c := range m.Class {
			count[c]++
		}
		for class, n := range count {
			if n > 0 && (len(classes) == 0 || slices.Contains(classes, class)) {
				out.Mask = append(out.Mask, share{class, label(class), float64(n) / float64(len(m.Class))})
			}
		}
	}
	return json.Marshal(out)
}
