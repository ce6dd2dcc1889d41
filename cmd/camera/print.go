package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/videoext/camera"
)

// printer tells what a camera does.
type printer struct {
	rate float64
	json *json.Encoder // nil: for people
	line io.Writer     // of each segment; nil: nobody looks
	news io.Writer
}

func newPrinter(lines bool, rate float64) *printer {
	p := &printer{rate: rate, news: os.Stderr}
	switch {
	case lines:
		p.json = json.NewEncoder(os.Stdout)
	case term.IsTerminal(int(os.Stdout.Fd())):
		p.line = os.Stdout
	}
	return p
}

// event is a line of JSON. Times are in seconds, rates in bits a second.
type event struct {
	Event     string  `json:"event"`
	Method    string  `json:"method,omitempty"`
	Segment   *int    `json:"segment,omitempty"`
	Frames    int     `json:"frames,omitempty"`
	BytesA    int     `json:"bytes_a,omitempty"`
	BytesB    int     `json:"bytes_b,omitempty"`
	Delay     float64 `json:"delay_s,omitempty"`
	Bandwidth float64 `json:"bandwidth_bits,omitempty"`
	Retry     float64 `json:"retry_s,omitempty"`
	Error     string  `json:"error,omitempty"`
}

func (p *printer) event(e camera.Event) {
	if p.json != nil {
		_ = p.json.Encode(lineOf(e)) // nobody may read
		return
	}
	switch e := e.(type) {
	case camera.Connected:
		fmt.Fprintf(p.news, "connected: method %s, from segment %d on\n", e.Method, e.Next)
	case camera.Disconnected:
		fmt.Fprintf(p.news, "no connection: %v; another try in %v\n", e.Err, e.Retry.Round(100*time.Millisecond))
	case camera.SourceLost:
		fmt.Fprintf(p.news, "no frames: %v; it is tried again\n", e.Err)
	case camera.NotDone:
		fmt.Fprintf(p.news, "not done: %v\n", e.Err)
	case camera.Finished:
		if p.line != nil {
			p.printSegment(e)
		}
	}
}

func lineOf(e camera.Event) event {
	switch e := e.(type) {
	case camera.Connected:
		next := int(e.Next)
		return event{Event: "connected", Method: e.Method, Segment: &next}
	case camera.Disconnected:
		return event{Event: "disconnected", Error: e.Err.Error(), Retry: e.Retry.Seconds()}
	case camera.SourceLost:
		return event{Event: "source_lost", Error: e.Err.Error()}
	case camera.NotDone:
		return event{Event: "not_done", Error: e.Err.Error()}
	case camera.Finished:
		n := int(e.Segment)
		return event{
			Event: "segment", Segment: &n, Frames: e.Frames, BytesA: e.Bytes[0], BytesB: e.Bytes[1], Delay: e.Delay.Seconds(), Bandwidth: 8 * e.Bandwidth,
		}
	}
	return event{}
}

func (p *printer) printSegment(e camera.Finished) {
	kbits := func(bytes int) float64 { return float64(bytes) * 8 / 1000 / float64(e.Frames) * p.rate }
	link := ""
	if e.Bandwidth > 0 {
		link = fmt.Sprintf(", link %.2f Mbit/s", e.Bandwidth*8/1e6)
	}
	fmt.Fprintf(p.line, "segment %d: A %.0f kbit/s, B %.0f kbit/s, results %.2f s after it%s\n", e.Segment, kbits(e.Bytes[0]), kbits(e.Bytes[1]), e.Delay.Seconds(), link)
}

// share is a part of the processor's time.
type share struct {
	name string
	time time.Duration
}

func (p *printer) printTotals(t *camera.Totals) {
	shares := []share{
		{"decode", t.Times.Decode}, {"scale", t.Times.Scale}, {"encode_a", t.Times.EncodeA}, {"encode_b", t.Times.EncodeB}, {"detect", t.Times.Detect}, {"measure", t.Times.Measure}, {"track", t.Times.Track},
		{"try", t.Times.Try},
	}
	if p.json != nil {
		processor := map[string]float64{}
		for _, s := range shares {
			processor[s.name+"_s"] = s.time.Seconds()
		}
		_ = p.json.Encode(map[string]any{ // nobody may read
			"event": "end", "frames": t.Frames, "dropped": t.Dropped, "segments": t.Segments, "done": t.Done, "sessions": t.Sessions, "bytes_a": t.Bytes[0], "bytes_b": t.Bytes[1],
			"left_out_a": t.LeftOut[0], "left_out_b": t.LeftOut[1],
			"delay_s": t.Delay.Seconds() / max(float64(t.Done), 1), "elapsed_s": t.Elapsed.Seconds(), "processor": processor,
		})
		return
	}
	if t.Frames == 0 {
		return
	}
	fmt.Fprintf(p.news, "%d frames in %v, %d dropped; %d of %d segments have results, %.2f s after them; %d sessions\n", t.Frames,
		t.Elapsed.Round(100*time.Millisecond), t.Dropped, t.Done, t.Segments, t.Delay.Seconds()/max(float64(t.Done), 1), t.Sessions)
	if t.LeftOut != [2]int{} {
		fmt.Fprintf(p.news, "left out: stream A of %d segments, stream B of %d\n", t.LeftOut[0], t.LeftOut[1])
	}
	fmt.Fprint(p.news, "processor, of each frame:")
	for _, s := range shares {
		if s.time > 0 {
			fmt.Fprintf(p.news, " %s %.1f ms (%.1f %% of a core)", s.name, s.time.Seconds()*1000/float64(t.Frames), 100*s.time.Seconds()/t.Elapsed.Seconds())
		}
	}
	fmt.Fprintln(p.news)
}
