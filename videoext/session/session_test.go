package session

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/mutate"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
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
		&Sent{Segment: 7, Stream: method.B, Of: 10, Frames: []int{0, 9}, Container: 4711, Knobs: Knobs{&media.QPMap{Columns: 2, Rows: 1, QP: []uint8{24, 36}}, -100}, Data: data},
		&Sent{Of: 2, Frames: []int{0, 1}, Data: data},
		&Done{7},
		&Refused{"no room"},
		&Skipped{method.Skip{Segment: 8, Of: 10}},
		&Answered{method.Answer{Segment: 7, Content: method.Wanted{Regions: [][]videoext.Region{{region}, nil}}}},
		&Answered{method.Answer{Segment: 7, Content: method.Seen{Frames: []int{3, 4}, Detections: [][]videoext.Detection{{car, car}, nil}}}},
		&Answered{method.Answer{Segment: 7, Content: method.Sensitive{Gradient: &oneadapt.Map{Width: 3, Height: 2, Values: []float32{0, 8, 4, 2, 0, 8}, Utility: 2.5}}}},
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

// TestListsTakeNoMoreMemoryThanTheyMay: of a message as long as one may be, whose things are of a byte each, no list is made.
func TestListsTakeNoMoreMemoryThanTheyMay(t *testing.T) {
	long := make([]byte, MaxBytes/8)
	for name, fields := range map[string][]byte{
		"results": {0, 1}, "regions": {0, contentWanted}, "frames seen": {0, contentSeen}, "detections": {0, contentSeen, 0}, "frames sent": {0, 0, 1},
	} {
		kind := map[bool]byte{true: kindAnswered, false: kindResulted}[name != "results"]
		if name == "frames sent" {
			kind = kindSent
		}
		fields = append(binary.AppendUvarint(fields, uint64(len(long))), long...)
		message := append(binary.BigEndian.AppendUint32([]byte{kind}, messageChecksum(kind, fields)), fields...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(message)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "are the most") || after.TotalAlloc-before.TotalAlloc > 1<<20 {
			t.Errorf("%s: %v, after %d bytes", name, err, after.TotalAlloc-before.TotalAlloc)
		}
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
	summed := func(kind byte, fields ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{kind}, messageChecksum(kind, fields)), fields...)
	}
	outside := videoext.Region{X0: 0.5, X1: 1.5, Y1: 1}
	data := messages()[2].(*Sent).Data
	for want, m := range map[string]Message{
		"not some of 10":     &Sent{Of: 10, Frames: []int{3, 3}, Data: data},
		"rows of 3":          &Sent{Of: 10, Frames: []int{3, 4}, Knobs: Knobs{Quantisers: &media.QPMap{Columns: 3, QP: []uint8{1, 2}}}, Data: data},
		"rows of 33":         &Sent{Of: 10, Frames: []int{3, 4}, Knobs: Knobs{Quantisers: &media.QPMap{Columns: 33, QP: make([]uint8, 33)}}, Data: data},
		"from 0 to 51":       &Sent{Of: 10, Frames: []int{3, 4}, Knobs: Knobs{Quantisers: &media.QPMap{Columns: 1, QP: []uint8{52}}}, Data: data},
		"a bias of 101":      &Sent{Of: 10, Frames: []int{3, 4}, Knobs: Knobs{BBias: 101}, Data: data},
		"2 frames for 1":     &Sent{Of: 10, Frames: []int{3}, Data: data},
		"of 0 frames":        &Skipped{},
		"no stream 2":        &Skipped{method.Skip{Stream: 2, Of: 1}},
		"not in the frame":   &Answered{method.Answer{Content: method.Wanted{Regions: [][]videoext.Region{{outside}}}}},
		"frames in a second": &Hello{Width: 320, Height: 240},
		"results of 0":       &Resulted{},
		"than 65536 det":     &Resulted{method.Results{Frames: []videoext.Findings{{Detections: make([]videoext.Detection, maxBoxes)}, {Detections: make([]videoext.Detection, 1)}}}},
	} {
		if _, err := Parse(one(m)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, not %q", m, err, want)
		}
	}
	for want, b := range map[string][]byte{
		"of 0 bytes":      nil,
		"of 4 bytes":      {kindEnded, 0, 0, 0},
		"unknown kind 99": summed(99),
		"is cut":          summed(kindDone),
		"too large":       summed(kindDone, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"followed by 1":   append(summed(kindDone, 1), 0),
		"of version 1":    summed(kindHello, 1, 0, 0),
		"1000 things":     summed(kindResulted, 0, 1, 0xe8, 7),
		"is spoilt":       {kindDone, 0, 0, 0, 0, 1},
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

// TestSpoilt: whichever bit of a segment's message is flipped, nothing is taken for what it is not. What is wrong with the frames names the segment
// that they are of, and the session goes on behind it.
func TestSpoilt(t *testing.T) {
	for _, m := range messages() {
		data, err := Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		_, begin := binary.Uvarint(data)
		sent, isSent := m.(*Sent)
		attributed := 0
		for bit := 8 * begin; bit < 8*len(data); bit++ {
			data[bit/8] ^= 1 << (bit % 8)
			r := NewReader(bufio.NewReader(bytes.NewReader(append(bytes.Clone(data), encodedDone...))))
			got, err := r.Next()
			var spoilt *SpoiltError
			switch {
			case err == nil:
				t.Errorf("%T with bit %d flipped was read as %#v", m, bit, got)
			case errors.As(err, &spoilt):
				attributed++
				if !isSent || spoilt.Segment != sent.Segment || spoilt.Stream != sent.Stream || spoilt.Of != sent.Of {
					t.Errorf("%T with bit %d flipped: %+v", m, bit, spoilt)
				}
				if next, err := r.Next(); err != nil || *next.(*Done) != (Done{9}) {
					t.Errorf("behind it is %#v, %v", next, err)
				}
			}
			data[bit/8] ^= 1 << (bit % 8)
		}
		if isSent && attributed < 8*len(sent.Data.Units[0].Data) {
			t.Errorf("%d of %d flipped bits are attributed", attributed, 8*len(data))
		}
	}
}

var encodedDone = func() []byte {
	data, err := Append(nil, &Done{9})
	if err != nil {
		panic(err)
	}
	return data
}()

// FuzzParse sets the checksums of what it is given, which are else hardly ever right.
func FuzzParse(f *testing.F) {
	for _, text := range bodies(f) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, data) })
}

var mutatedMessages = flag.Int("messages", 100_000, "messages that TestMutatedMessages reads")

// TestMutatedMessages reads what comes of messages by numbers at the ends of their ranges, swaps, cuts and flipped bits. With -messages 10000000 it
// takes a minute or so.
func TestMutatedMessages(t *testing.T) {
	pick, seeds := rand.New(rand.NewPCG(1, uint64(*mutatedMessages))), bodies(t)
	m, read := mutate.OfBinary(pick, seeds), 0
	for range *mutatedMessages {
		if survives(t, []byte(m.Mutate(seeds[pick.IntN(len(seeds))]))) {
			read++
		}
	}
	t.Logf("%d of %d messages were read", read, *mutatedMessages)
	if read < *mutatedMessages/50 {
		t.Errorf("%d messages were read", read)
	}
}

// bodies are messages without their lengths.
func bodies(t testing.TB) (list []string) {
	t.Helper()
	for _, m := range messages() {
		data, err := Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		_, n := binary.Uvarint(data)
		list = append(list, string(data[n:]))
	}
	return list
}

// survives sets the checksums of a message, and holds that it is refused or the same once it was written and read again.
func survives(t *testing.T, data []byte) (read bool) {
	setSums(data)
	m, err := Parse(data)
	if err != nil {
		return false
	}
	again, err := Append(nil, m)
	if err != nil {
		t.Fatalf("%x: %#v was read, and cannot be written: %v", data, m, err)
	}
	_, n := binary.Uvarint(again)
	back, err := Parse(again[n:])
	if a, ok := m.(*Answered); ok {
		if _, ok := a.Content.(method.Sensitive); ok { // its values are rounded to parts of the greatest one
			m = back
		}
	}
	if err != nil || !reflect.DeepEqual(back, m) {
		t.Fatalf("%x: %#v became %#v, %v", data, m, back, err)
	}
	return true
}

// setSums sets the checksum of a message's fields, and that of a segment behind them.
func setSums(data []byte) {
	if len(data) < sumBytes {
		return
	}
	r := reader{data: data[sumBytes:]}
	readMessage(&r, data[0])
	fields := data[sumBytes : len(data)-len(r.data)]
	binary.BigEndian.PutUint32(data[1:], messageChecksum(data[0], fields))
	if end := len(r.data) - crc32.Size; data[0] == kindSent && end > 0 {
		binary.BigEndian.PutUint32(r.data[end:], crc32.Checksum(r.data[:end], castagnoli))
	}
}
