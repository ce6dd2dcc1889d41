package weights

import (
	"encoding/binary"
	"strings"
	"testing"
)

const goodHeader = `{"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}  `

func TestParseHeader(t *testing.T) {
	entries, err := parseHeader([]byte(goodHeader), 20)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 || entries[0].name != "a" || entries[1].name != "b" || entries[1].begin != 12 {
		t.Fatalf("entries %+v", entries)
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	one := func(dtype, shape, offsets string) string {
		return `{"x":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	for name, c := range map[string]struct {
		header string
		data   int64
		want   string
	}{
		"not an object":   {`[1]`, 0, "begins with ["},
		"empty":           {``, 0, "unexpected EOF"},
		"cut":             {goodHeader[:50], 20, "unexpected EOF"},
		"tail":            {goodHeader + `{}`, 20, "data after"},
		"named twice":     {`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, `"x" is named twice`},
		"unknown dtype":   {one("F4", "[2]", "[0,1]"), 1, `unknown dtype "F4"`},
		"backward":        {one("U8", "[2]", "[2,0]"), 2, "want a range"},
		"one offset":      {one("U8", "[2]", "[0]"), 2, "want a range"},
		"negative offset": {one("U8", "[2]", "[-2,0]"), 2, "want a range"},
		"wrong length":    {one("F32", "[2,3]", "[0,20]"), 20, "hold 20 bytes, shape [2 3] of F32 needs 24"},
		"negative shape":  {one("U8", "[-1,-1]", "[0,1]"), 1, "invalid shape"},
		"huge shape":      {one("F32", "[4611686018427387904,4]", "[0,0]"), 0, "invalid shape"},
		"truncated data":  {goodHeader, 19, `tensor "b": data_offsets [12, 20] end beyond the file's 19 data bytes`},
		"longer data":     {goodHeader, 21, "1 bytes follow the last tensor"},
		"hole":            {one("U8", "[1]", "[1,2]"), 2, "leave a hole after 0"},
		"overlap":         {`{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3, `"y": data_offsets [1, 3] overlap those of "x"`},
		"metadata":        {`{"__metadata__":{"n":1}}`, 0, "__metadata__"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseHeader([]byte(c.header), c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want it to hold %q", err, c.want)
			}
		})
	}
}

func TestHeaderLength(t *testing.T) {
	prefix := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for name, c := range map[string]struct {
		prefix []byte
		size   int64
		want   string
	}{
		"empty file":    {nil, 0, "file has 0 bytes"},
		"over 100 MB":   {prefix(maxHeader + 1), 1 << 40, "exceeds the format's limit of 104857600 bytes"},
		"beyond file":   {prefix(100), 50, "header length 100 exceeds the 42 bytes that follow"},
		"all ones":      {prefix(1<<64 - 1), 1 << 40, "exceeds the format's limit"},
		"pickled model": {[]byte("PK\x03\x04....")[:8], 1 << 20, "not a safetensors file?"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := headerLength(c.prefix, c.size); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want it to hold %q", err, c.want)
			}
		})
	}
}

// FuzzParseHeader checks that whatever is accepted is a partition of the data.
func FuzzParseHeader(f *testing.F) {
	f.Add([]byte(goodHeader), int64(20))
	f.Add([]byte(`{}`), int64(0))
	f.Add([]byte(`{"x":{"dtype":"F8_E4M3","shape":[],"data_offsets":[0,1]}}`), int64(1))
	f.Add([]byte(`{"x":{"dtype":"U8","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`), int64(0))
	f.Add([]byte(`{"":{"shape":[1e3],"data_offsets":[0,null]}}`), int64(7))
	f.Fuzz(func(t *testing.T, header []byte, size int64) {
		entries, err := parseHeader(header, size)
		if err != nil {
			return
		}
		var at int64
		names := map[string]bool{}
		for _, e := range entries {
			count := elementBytes[e.dtype]
			for _, n := range e.shape {
				count *= int64(n)
			}
			if e.begin != at || e.end-e.begin != count || names[e.name] {
				t.Fatalf("accepted %+v at %d", e, at)
			}
			names[e.name], at = true, e.end
		}
		if at != size {
			t.Fatalf("entries end at %d of %d", at, size)
		}
	})
}
