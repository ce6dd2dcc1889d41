// Package video compares ways to stream video on clips: settings of each, how accurate what comes out of them is and what it costs, and the
// charts of that.
package video

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/accuracy"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/link"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Row is what one method with one setting made of one clip. Of networks of pixels both F1 are the mean IoU.
type Row struct {
	Clip, Method, Setting    string
	F1DDS, F1OneAdapt        float64
	NAL, Container, Original int
	Delay, Camera, Server    time.Duration
	Objects                  float64 // true ones in a frame, by DDS's rule; 0 for networks of pixels
	// What adaptation takes: frames that the server's network has looked at, gradients of it and the device's time and bytes to the camera that they took, and
	// segments that the camera encoded.
	Inferences, Gradients, Feedback, Encodes int
	GradientTime                             time.Duration
	Link                                     string // name of the network; empty: all goes through at once
}

// columns are those of results.csv.
var columns = []string{
	"clip", "method", "setting", "f1_dds", "f1_oneadapt", "bytes_nal", "bytes_container", "bytes_original", "delay_s", "camera_cpu_s", "server_device_s", "objects",
	"looks", "gradients", "gradient_device_s", "feedback_bytes", "encodes", "link",
}

func (r *Row) csvRecord() []string {
	f1 := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	return []string{
		r.Clip, r.Method, r.Setting, f1(r.F1DDS), f1(r.F1OneAdapt), strconv.Itoa(r.NAL), strconv.Itoa(r.Container), strconv.Itoa(r.Original),
		seconds(r.Delay), seconds(r.Camera), seconds(r.Server), strconv.FormatFloat(r.Objects, 'f', 2, 64),
		strconv.Itoa(r.Inferences), strconv.Itoa(r.Gradients), seconds(r.GradientTime), strconv.Itoa(r.Feedback), strconv.Itoa(r.Encodes), r.Link,
	}
}

// Write writes rows as CSV.
func Write(w io.Writer, rows []Row) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return err
	}
	for i := range rows {
		if err := out.Write(rows[i].csvRecord()); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// Rules are the two ways to count F1.
type Rules struct{ DDS, OneAdapt accuracy.Rule }

// Published are the rules of both papers' evaluations, for the scores that a detector's own threshold cuts: what was found counts from that score on,
// 0.5 in both, and for boxes that have at most some part of the frame. 0: as published.
func Published(found, largest float32) Rules {
	r := Rules{accuracy.DDS(), accuracy.OneAdapt()}
	if found > 0 {
		r.DDS.Found, r.OneAdapt.Found = found, found
		r.OneAdapt.Truth = found
	}
	if largest > 0 {
		r.DDS.Area, r.OneAdapt.Area = largest, largest
	}
	return r
}

func (r *Rules) f1Scores(truth, found []videoext.Findings) (float64, float64) {
	if len(truth) > 0 && truth[0].Mask != nil {
		iou := accuracy.MeanIoU(truth, found)
		return iou, iou
	}
	return r.DDS.F1(truth, found), r.OneAdapt.F1(truth, found)
}

// Network is a link for each run.
type Network struct {
	Name  string // empty: one that carries all at once
	Trace link.Trace
	Burst int
	RTT   time.Duration
}

func (n *Network) newLink() *link.Link { return link.New(n.Trace, n.Burst, n.RTT) }

// Measure runs a method on a lab's clip.
func Measure(lab *emulate.Lab, m method.Method, n Network, r Rules) (Row, error) {
	truth, err := lab.Truth()
	if err != nil {
		return Row{}, err
	}
	out, err := lab.Run(m, n.newLink())
	if err != nil {
		return Row{}, err
	}
	row := Row{Clip: lab.Clip().Name, Method: m.Name, Setting: m.Setting, Original: lab.Clip().Bytes}
	row.F1DDS, row.F1OneAdapt = r.f1Scores(truth, out.Found)
	row.NAL, row.Container = out.NAL, out.Container
	row.Delay, row.Camera, row.Server = out.Delay, out.CameraTime, out.ServerTime
	row.Inferences, row.Gradients, row.GradientTime, row.Feedback, row.Encodes = out.Inferences, out.Gradients, out.GradientTime, out.Feedback, out.Encodes
	row.Objects, row.Link = r.DDS.Objects(truth), n.Name
	return row, nil
}

// Parts cuts a clip into parts of so many seconds, whose names have @ and where they begin; 0: it is one part. What is left at the end is no part
// if it is shorter than half of one.
func Parts(clip *emulate.Clip, seconds float64) (parts []*emulate.Clip) {
	n := int(math.Round(seconds * clip.Rate))
	if n < 1 || n >= len(clip.Frames) {
		return []*emulate.Clip{clip}
	}
	for from := 0; from+(n+1)/2 <= len(clip.Frames); from += n {
		part := *clip
		part.Name = fmt.Sprintf("%s@%gs", clip.Name, float64(from)/clip.Rate)
		part.Frames = clip.Frames[from:min(from+n, len(clip.Frames))]
		part.Bytes = clip.Bytes * len(part.Frames) / len(clip.Frames)
		parts = append(parts, &part)
	}
	return parts
}
