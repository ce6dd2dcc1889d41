package session

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

func unit(order int, kind byte) media.Unit {
	return media.Unit{Order: order, Index: 10 + order, Time: time.Duration(order) * time.Second / 10, Data: []byte{0, 0, 0, 1, kind, 1, 2, 3}}
}

func messages() []Message {
	region := videoext.Region{X0: 0.25, Y0: 0.5, X1: 0.5, Y1: 1}
	car := videoext.Detection{Region: region, Class: 2, Score: 0.75}
	data := &media.Segment{Width: 320, Height: 240, Rate: 10, Units: []media.Unit{unit(0, 0x65), unit(1, 0x41)}}
	return []Message{
		&Hello{Width: 960, Height: 540, Rate: 12.5, Camera: "door"},
		&Welcome{Method: "dds:preset=paper", Next: 12},
		&Sent{Segment: 7, Stream: method.B, Of: 10, Frames: []int{0, 9}, Container: 4711, Data: data},
		&Delay{7, 130 * time.Millisecond},
		&Done{7},
		&Refused{"no room"},
		&Skipped{method.Skip{Segment: 8, Of: 10}},
		&Answered{method.Answer{Segment: 7, Content: method.Wanted{Regions: [][]videoext.Region{{region}, nil}}}},
		&Answered{method.Answer{Segment: 7, Content: method.Seen{Frames: []int{3, 4}, Detections: [][]videoext.Detection{{car, car}, nil}}}},
		&Resulted{method.Results{Segment: 7, Final: true, Frames: []videoext.Findings{{Detections: []videoext.Detection{car}}, {}}}},
		&Ended{},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	var data []byte
	for _, m := range messages() {
		var err error
		if data, err = Append(data, m); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(bufio.NewReader(bytes.NewReader(data)))
	for _, want := range messages() {
		got, err := r.Next()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%#v became %#v, %v", want, got, err)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	r = NewReader(bufio.NewReader(bytes.NewReader(data[:len(data)-1])))
	for range messages()[1:] {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut in a message: %v", err)
	}
}

func TestWrongMessages(t *testing.T) {
	one := func(m Message) []byte {
		data, err := Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		_, n := binary.Uvarint(data)
		return data[n:]
	}
	outside := videoext.Region{X0: 0.5, X1: 1.5, Y1: 1}
	data := messages()[2].(*Sent).Data
	for want, m := range map[string]Message{
		"not some of 10":     &Sent{Of: 10, Frames: []int{3, 3}, Data: data},
		"2 frames for 1":     &Sent{Of: 10, Frames: []int{3}, Data: data},
		"of 0 frames":        &Skipped{},
		"no stream 2":        &Skipped{method.Skip{Stream: 2, Of: 1}},
		"not in the frame":   &Answered{method.Answer{Content: method.Wanted{Regions: [][]videoext.Region{{outside}}}}},
		"frames in a second": &Hello{Width: 320, Height: 240},
		"results of 0":       &Resulted{},
	} {
		if _, err := Parse(one(m)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, not %q", m, err, want)
		}
	}
	for want, b := range map[string][]byte{
		"no bytes":        nil,
		"unknown kind 99": {99},
		"is cut":          {kindDone},
		"too large":       {kindDone, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"followed by 1":   {kindDone, 1, 0},
		"of version 2":    {kindHello, 2, 0, 0},
		"1000 things":     append([]byte{kindResulted, 0, 1}, 0xe8, 7),
	} {
		if _, err := Parse(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not %q", b, err, want)
		}
	}
	long := binary.AppendUvarint(nil, MaxBytes+1)
	if _, err := NewReader(bufio.NewReader(bytes.NewReader(long))).Next(); err == nil || !strings.Contains(err.Error(), "67108865 bytes") {
		t.Errorf("a message that is too long: %v", err)
	}
	if _, err := Append(nil, &Answered{}); err == nil {
		t.Error("an answer of nothing was written")
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range messages() {
		data, err := Append(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		_, n := binary.Uvarint(data)
		f.Add(data[n:])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		again, err := Append(nil, m)
		if err != nil {
			t.Fatalf("%#v was read, and cannot be written: %v", m, err)
		}
		_, n := binary.Uvarint(again)
		if back, err := Parse(again[n:]); err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%#v became %#v, %v", m, back, err)
		}
	})
}
