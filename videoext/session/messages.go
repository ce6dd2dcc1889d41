package session

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// maxFrames is how many frames a segment may have.
const maxFrames = media.MaxFrames

// maxBoxes is how many detections or regions a frame may have, and the results of a segment in all: a result is kept for each frame, with its own.
const maxBoxes = 1 << 16

const (
	contentWanted byte = iota
	contentSeen
	contentSensitive
)

func writeMessage(w *writer, m Message) error {
	switch m := m.(type) {
	case *Hello:
		w.number(Version)
		w.number(m.Width)
		w.number(m.Height)
		w.float(m.Rate)
		w.writeBytes([]byte(m.Camera))
	case *Welcome:
		w.writeBytes([]byte(m.Method))
		w.number(int(m.Next))
	case *Sent:
		writeSent(w, m)
	case *Done:
		w.number(int(m.Segment))
	case *Refused:
		w.writeBytes([]byte(m.Reason))
	case *Skipped:
		w.number(int(m.Segment))
		w.number(int(m.Stream))
		w.number(m.Of)
	case *Answered:
		w.number(int(m.Segment))
		return writeContent(w, m.Content)
	case *Resulted:
		return writeResults(w, m)
	}
	return nil
}

func readMessage(r *reader, kind byte) Message {
	switch kind {
	case kindHello:
		if v := r.number(); v != Version {
			r.fail(fmt.Errorf("it is of version %d, and this is %d", v, Version))
		}
		return readHello(r)
	case kindWelcome:
		return &Welcome{Method: string(r.readBytes()), Next: readSegment(r)}
	case kindSent:
		return readSent(r)
	case kindDone:
		return &Done{readSegment(r)}
	case kindRefused:
		return &Refused{string(r.readBytes())}
	case kindSkipped:
		return &Skipped{method.Skip{Segment: readSegment(r), Stream: readStream(r), Of: readFrameCount(r)}}
	case kindAnswered:
		return &Answered{method.Answer{Segment: readSegment(r), Content: readContent(r)}}
	case kindResulted:
		return readResults(r)
	case kindEnded:
		return &Ended{}
	}
	return nil
}

func readSegment(r *reader) method.Segment { return method.Segment(r.number()) }

func readStream(r *reader) method.Stream {
	s := r.number()
	if s > int(method.B) {
		r.fail(fmt.Errorf("there is no stream %d", s))
	}
	return method.Stream(s)
}

// readFrameCount is how many frames a segment has.
func readFrameCount(r *reader) int {
	n := r.number()
	if r.err == nil && (n < 1 || n > maxFrames) {
		r.fail(fmt.Errorf("a segment of %d frames; 1 to %d are right", n, maxFrames))
	}
	return n
}

func readHello(r *reader) *Hello {
	h := &Hello{Width: r.number(), Height: r.number(), Rate: r.float(), Camera: string(r.readBytes())}
	if r.err != nil {
		return h
	}
	if err := media.CheckSize(h.Width, h.Height); err != nil {
		r.fail(err)
	}
	if !(h.Rate > 0 && h.Rate <= 1000) {
		r.fail(fmt.Errorf("%v frames in a second; above 0 and at most 1000 are right", h.Rate))
	}
	return h
}

// writeSent writes what says whose the encoded frames are.
func writeSent(w *writer, m *Sent) {
	w.number(int(m.Segment))
	w.number(int(m.Stream))
	w.number(m.Of)
	writeList(w, m.Frames, writeNumber)
	w.number(m.Container)
	writeKnobs(w, &m.Knobs)
}

func readSent(r *reader) *Sent {
	m := &Sent{Segment: readSegment(r), Stream: readStream(r), Of: readFrameCount(r)}
	m.Frames = r.readFrameNumbers(m.Of)
	m.Container = r.number()
	m.Knobs = readKnobs(r)
	return m
}

const mostBias = 100

func writeKnobs(w *writer, k *Knobs) {
	w.number(k.BBias + mostBias)
	if q := k.Quantisers; q == nil {
		w.number(0)
	} else {
		w.number(q.Columns)
		w.writeBytes(q.QP)
	}
}

func readKnobs(r *reader) Knobs {
	k := Knobs{BBias: r.number() - mostBias}
	columns := r.number()
	if columns > 0 && r.err == nil {
		qp := r.readBytes()
		q := &media.QPMap{Columns: columns, Rows: len(qp) / columns, QP: qp}
		if most := media.SummaryCells; columns > most || q.Rows < 1 || q.Rows > most || columns*q.Rows != len(qp) || slices.Max(qp) > media.MaxQP {
			r.fail(fmt.Errorf("quantisers of %d cells in rows of %d; at most %d each way are read, from 0 to %d", len(qp), columns, most, media.MaxQP))
		}
		k.Quantisers = q
	}
	if r.err == nil && (k.BBias < -mostBias || k.BBias > mostBias) {
		r.fail(fmt.Errorf("a bias of %d to B frames; -%d to %d is right", k.BBias, mostBias, mostBias))
	}
	return k
}

func writeContent(w *writer, c method.Content) error {
	switch c := c.(type) {
	case method.Wanted:
		w.data = append(w.data, contentWanted)
		writeList(w, c.Regions, writeRegions)
	case method.Seen:
		w.data = append(w.data, contentSeen)
		writeList(w, c.Frames, writeNumber)
		writeList(w, c.Detections, writeDetections)
	case method.Sensitive:
		w.data = append(w.data, contentSensitive)
		data, err := c.Gradient.AppendBinary(nil)
		if err != nil {
			return err
		}
		w.writeBytes(data)
	default:
		return fmt.Errorf("an answer of %T has no form for the wire", c)
	}
	return nil
}

func readContent(r *reader) method.Content {
	kind := r.takeBytes(1)
	switch {
	case kind == nil:
		return nil
	case kind[0] == contentWanted:
		return method.Wanted{Regions: readList(r, maxFrames, 1, readRegions)}
	case kind[0] == contentSeen:
		s := method.Seen{Frames: r.readFrameNumbers(maxFrames), Detections: readList(r, maxFrames, 1, readDetections)}
		if r.err == nil && len(s.Frames) != len(s.Detections) {
			r.fail(fmt.Errorf("it has what was seen in %d frames, of %d", len(s.Detections), len(s.Frames)))
		}
		return s
	case kind[0] == contentSensitive:
		data := r.readBytes()
		if r.err != nil {
			return nil
		}
		m, err := oneadapt.ReadMap(data)
		if err != nil {
			r.fail(err)
		}
		return method.Sensitive{Gradient: m}
	}
	r.fail(fmt.Errorf("there is no answer of kind %d", kind[0]))
	return nil
}

// writeResults writes detections; a camera has no masks.
func writeResults(w *writer, m *Resulted) error {
	w.number(int(m.Segment))
	final := 0
	if m.Final {
		final = 1
	}
	w.number(final)
	w.number(len(m.Frames))
	for _, f := range m.Frames {
		if f.Mask != nil {
			return fmt.Errorf("results of segment %d have a mask, which has no form for the wire", m.Segment)
		}
		writeDetections(w, f.Detections)
	}
	return nil
}

func readResults(r *reader) *Resulted {
	m := &Resulted{method.Results{Segment: readSegment(r), Final: r.number() == 1}}
	boxes := 0
	m.Frames = readList(r, maxFrames, 1, func(r *reader) videoext.Findings {
		f := videoext.Findings{Detections: readDetections(r)}
		if boxes += len(f.Detections); boxes > maxBoxes {
			r.fail(fmt.Errorf("results with more than %d detections in a segment", maxBoxes))
		}
		return f
	})
	if r.err == nil && (len(m.Frames) < 1 || len(m.Frames) > maxFrames) {
		r.fail(fmt.Errorf("results of %d frames; 1 to %d are right", len(m.Frames), maxFrames))
	}
	return m
}
