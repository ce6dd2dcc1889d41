package images

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// progressive is a grey JPEG of so many scans of its coefficients but the first, each of nothing.
func progressive(height, width, scans int) []byte {
	file := []byte("\xff\xd8\xff\xe1\x00\x06\xff\xda\xff\xda\xff\xc2\x00\x0b\x08") // what is in a segment is no scan
	file = binary.BigEndian.AppendUint16(file, uint16(height))
	file = binary.BigEndian.AppendUint16(file, uint16(width))
	file = append(file, "\x01\x01\x11\x00"+ // one component
		"\xff\xc4\x00\x14\x10\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xe0"...) // code 0: 16384 blocks of nothing and more
	blocks := (height + 7) / 8 * ((width + 7) / 8)
	scan := []byte("\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00")
	var bits strings.Builder
	for ; blocks > 0; blocks -= 32767 {
		bits.WriteString("0" + strings.Repeat("1", 14))
	}
	for bits.Len()%8 != 0 {
		bits.WriteByte('1')
	}
	for at := 0; at < bits.Len(); at += 8 {
		var b byte
		for _, c := range bits.String()[at:][:8] {
			b = b<<1 | byte(c-'0')
		}
		if scan = append(scan, b); b == 0xff {
			scan = append(scan, 0)
		}
	}
	file = append(file, scan...)
	scan[9] = 0x10 // those behind the first refine it
	file = append(file, bytes.Repeat(scan, scans-1)...)
	return append(file, "\xff\xd9"...)
}

// TestScansTimesPixelsAreBounded: a scan of a few bytes takes the time of all the pixels.
func TestScansTimesPixelsAreBounded(t *testing.T) {
	for _, c := range []struct {
		height, width, scans int
		wrong                string
	}{
		{64, 64, 1000, ""}, // which is more bytes than pixels
		{4320, 7680, 16, ""},
		{4320, 7680, 17, "the picture has 17 scans of 7680 x 4320 pixels, want at most 16 of that size"},
		{2000, 2000, 100000, "the picture has 100000 scans of 2000 x 2000 pixels, want at most 132 of that size"},
	} {
		data := progressive(c.height, c.width, c.scans)
		if n := countScans(data); n != c.scans {
			t.Errorf("%d scans are counted, want %d", n, c.scans)
		}
		_, err := Decode(data)
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%d scans of %d x %d: %v", c.scans, c.width, c.height, err)
		case c.wrong != "" && (err == nil || err.Error() != c.wrong):
			t.Errorf("%d scans of %d x %d: %v, want %s", c.scans, c.width, c.height, err, c.wrong)
		}
	}
}
