package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// writer makes files as a stranger would.
type writer struct{ bytes.Buffer }

func (w *writer) u32(n uint32) *writer { return w.raw(binary.LittleEndian.AppendUint32(nil, n)) }
func (w *writer) u64(n uint64) *writer { return w.raw(binary.LittleEndian.AppendUint64(nil, n)) }
func (w *writer) raw(b []byte) *writer { w.Write(b); return w }
func (w *writer) text(s string) *writer {
	return w.u64(uint64(len(s))).raw([]byte(s))
}

func header(tensors, keys uint64) *writer {
	w := &writer{}
	return w.raw([]byte(Magic)).u32(3).u64(tensors).u64(keys)
}

func (w *writer) tensor(name string, typ Type, offset uint64, dims ...uint64) *writer {
	w.text(name).u32(uint32(len(dims)))
	for _, n := range dims {
		w.u64(n)
	}
	return w.u32(uint32(typ)).u64(offset)
}

func (w *writer) data(n int) []byte {
	pad := (32 - w.Len()%32) % 32
	return w.raw(make([]byte, pad+n)).Bytes()
}

// TestHostileFiles: whatever a file claims is an error that names the place, the key or the tensor.
func TestHostileFiles(t *testing.T) {
	const huge = math.MaxUint64
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":                 {nil, "not a GGUF file"},
		"other":                 {[]byte("PK\x03\x04 and more"), "not a GGUF file"},
		"cut in the header":     {[]byte("GGUF\x03\x00\x00\x00\x01"), "at offset 8"},
		"version 1":             {(&writer{}).raw([]byte(Magic)).u32(1).u64(0).Bytes(), "unsupported version 1"},
		"big-endian":            {(&writer{}).raw([]byte(Magic)).u32(3 << 24).u64(0).Bytes(), "big-endian"},
		"10^8 keys":             {header(0, 1e8).data(1 << 20), "at offset 16: 100000000 keys of metadata, want at most 65536"},
		"2^64 keys":             {header(0, huge).data(64), "at offset 16: 18446744073709551615 keys"},
		"2^64 tensors":          {header(huge, 0).data(64), "at offset 8: 18446744073709551615 tensors"},
		"a key's length":        {header(0, 1).u64(huge).data(64), "at offset 24: a key has 18446744073709551615 bytes"},
		"a key beyond the end":  {header(0, 1).u64(60000).data(64), "at offset 32: a key takes 60000 bytes, and"},
		"a text's length":       {header(0, 1).text("k").u32(8).u64(huge - 7).data(64), `key "k": at offset 37: a text has 18446744073709551608 bytes`},
		"an unknown type":       {header(0, 1).text("k").u32(13).data(64), `key "k": at offset 33: unsupported type 13`},
		"arrays of arrays":      {header(0, 1).text("k").u32(9).u32(9).u64(1).data(64), `key "k": at offset 33: unsupported type 9`},
		"2^64 elements":         {header(0, 1).text("k").u32(9).u32(0).u64(huge).data(64), `key "k": at offset 41: 18446744073709551615 elements`},
		"2^62 elements":         {header(0, 1).text("k").u32(9).u32(10).u64(1 << 62).data(64), `key "k": at offset 41: 4611686018427387904 elements`},
		"2^40 texts":            {header(0, 1).text("k").u32(9).u32(8).u64(1 << 40).data(64), `key "k": at offset 41: 1099511627776 elements`},
		"a text in an array":    {header(0, 1).text("k").u32(9).u32(8).u64(2).u64(0).u64(huge).data(64), `key "k": element 1: at offset 57`},
		"a key twice":           {header(0, 2).text("k").u32(7).raw([]byte{1}).text("k").u32(7).raw([]byte{1}).data(64), `key "k" at offset 47 is there twice`},
		"alignment 0":           {header(0, 1).text(alignmentKey).u32(4).u32(0).data(64), `key "general.alignment" is 0, want a power of two`},
		"alignment 24":          {header(0, 1).text(alignmentKey).u32(4).u32(24).data(64), `is 24, want a power of two`},
		"alignment 2^31":        {header(0, 1).text(alignmentKey).u32(4).u32(1 << 31).data(64), `is 2147483648, want a power of two`},
		"alignment of text":     {header(0, 1).text(alignmentKey).u32(8).text("32").data(64), `invalid key "general.alignment": want a whole number`},
		"no dimensions":         {header(1, 0).tensor("t", F32, 0).data(64), `tensor "t" at offset 33: has 0 dimensions`},
		"2^32 dimensions":       {header(1, 0).text("t").u32(math.MaxUint32).data(64), "has 4294967295 dimensions"},
		"a dimension of 0":      {header(1, 0).tensor("t", F32, 0, 0).data(64), `tensor "t" at offset 33: has a dimension of 0`},
		"dimensions overflow":   {header(1, 0).tensor("t", F32, 0, 1<<32, 1<<32).data(64), "has a dimension of 4294967296"},
		"dimensions overflow 4": {header(1, 0).tensor("t", F32, 0, 1<<16, 1<<16, 1<<16, 1<<16).data(64), "1 to 1099511627776 elements in all"},
		"a dimension of 2^64":   {header(1, 0).tensor("t", F32, 0, huge).data(64), "has a dimension of 18446744073709551615"},
		"a type unknown":        {header(1, 0).tensor("t", 77, 0, 8).data(64), `tensor "t" at offset 33: unsupported type 77`},
		"a type not read":       {header(1, 0).tensor("t", 16, 0, 256).data(64), "unsupported type IQ2_XXS, want one of F32, F16, Q4_0"},
		"half a block":          {header(1, 0).tensor("t", Q4_0, 0, 48).data(64), "rows have 48 elements, want a multiple of the 32"},
		"an offset of 2^64":     {header(1, 0).tensor("t", F32, huge-31, 8).data(64), `tensor "t" at offset 33: is at 18446744073709551584`},
		"an offset of 2^63":     {header(1, 0).tensor("t", F32, 1<<63, 8).data(64), `is at 9223372036854775808`},
		"an offset not aligned": {header(1, 0).tensor("t", F32, 4, 8).data(64), "is at 4 of the tensors' data, want a multiple of 32"},
		"cut in the data":       {header(1, 0).tensor("t", F32, 0, 17).data(64), `tensor "t" at offsets 64 to 132 ends beyond the file's 128 bytes`},
		"overlap":               {header(2, 0).tensor("a", F32, 0, 16).tensor("b", F32, 32, 8).data(64), `tensor "b" at offsets 128 to 160 overlaps "a", which ends at 160`},
		"one place":             {header(2, 0).tensor("a", F32, 0, 8).tensor("b", F32, 0, 8).data(64), "overlaps"},
		"a name twice":          {header(2, 0).tensor("a", F32, 0, 8).tensor("a", F32, 32, 8).data(64), `tensor "a" is named twice`},
		"a long name":           {header(1, 0).tensor(strings.Repeat("x", 2000), F32, 0, 8).data(64), "a tensor's name has 2000 bytes"},
		"a name beyond the end": {header(1, 0).u64(1000).data(64), "a tensor's name takes 1000 bytes"},
	} {
		f, err := Parse(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, f, err, c.want)
		}
	}
}

// TestCutFiles: a file that is cut anywhere is refused.
func TestCutFiles(t *testing.T) {
	data, f := goldenFile(t)
	end := f.Tensors[len(f.Tensors)-1].End
	for n := int64(0); n < end; n += 1 + n/500 {
		if _, err := Parse(data[:n]); err == nil {
			t.Errorf("cut after %d of %d bytes: no error", n, end)
		}
	}
}

// TestMetadataIsBounded: a file of holes, which takes no space, may have arrays and texts of any length; what is asked for is bounded.
func TestMetadataIsBounded(t *testing.T) {
	for want, data := range map[string][]byte{
		`key "k" has 4194305 elements, want at most 4194304`: header(0, 1).text("k").u32(uint32(kindArray)).u32(uint32(kindString)).u64(mostElements + 1).data(8 * (mostElements + 1)),
		`key "k" has 67108865 bytes, want at most 67108864`:  header(0, 1).text("k").u32(uint32(kindString)).u64(mostBytes + 1).data(mostBytes + 1),
	} {
		f, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		_, asArray := f.Strings("k")
		if _, asText := f.String("k"); asArray.Error() != want && asText.Error() != want {
			t.Errorf("as an array: %v; as a text: %v; want %s", asArray, asText, want)
		}
	}
}

// FuzzParse: no bytes make the reader fail otherwise than by an error, and what it lets through lies in the file and expands.
func FuzzParse(f *testing.F) {
	data, _ := goldenFile(f)
	f.Add(data[:4096])
	f.Add(header(1, 1).text("k").u32(9).u32(8).u64(2).text("a").text("b").tensor("t", Q4_1, 0, 32, 2).data(64))
	f.Add(header(0, 1).text(alignmentKey).u32(4).u32(64).data(64))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		for key := range file.values {
			for _, err := range []error{second(file.Int(key)), second(file.Float(key)), second(file.Bool(key)), second(file.String(key)), second(file.Strings(key)), second(file.Ints(key)), second(file.Floats(key))} {
				_ = err // any answer will do
			}
		}
		for _, x := range file.Tensors {
			block := data[x.Begin:x.End][:x.Type.Bytes(int64(x.Type.BlockLen()))]
			x.Type.Expand(make([]float32, x.Type.BlockLen()), block)
		}
	})
}
