package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// maxHeader is the safetensors format's own bound on the JSON header.
const maxHeader = 100 << 20

// elementBytes lists the element types of the format that a checkpoint may hold, computable or not.
var elementBytes = map[string]int64{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
	"U16": 2, "I16": 2, "F16": 2, "BF16": 2,
	"U32": 4, "I32": 4, "F32": 4,
	"U64": 8, "I64": 8, "F64": 8,
}

// computable maps the types that backends take; F8_E4M3 and I8 come with a tensor of scales.
var computable = map[string]kernels.DType{"BF16": kernels.BF16, "F16": kernels.F16, "F32": kernels.F32, "F8_E4M3": kernels.F8E4M3, "I8": kernels.I8}

// entry is one tensor of a header. Its data is [begin, end) of the bytes after the header.
type entry struct {
	name       string
	dtype      string
	shape      []int
	begin, end int64
	coded      *coded // nil: its elements are as the file has them
}

// computed is the type that backends take the tensor as, if any.
func (e *entry) computed() (kernels.DType, bool) {
	if e.coded != nil {
		return e.coded.expanded(), true
	}
	typ, ok := computable[e.dtype]
	return typ, ok
}

// headerLength reads the length of the JSON header from a file's first bytes and checks it against
// the format's bound and the file's size.
func headerLength(prefix []byte, fileSize int64) (int64, error) {
	if fileSize < 8 || len(prefix) < 8 {
		return 0, fmt.Errorf("file has %d bytes, want at least the 8 bytes of a safetensors header's length (truncated?)", fileSize)
	}
	n := binary.LittleEndian.Uint64(prefix)
	if n > maxHeader {
		return 0, fmt.Errorf("header length %d exceeds the format's limit of %d bytes (not a safetensors file?)", n, maxHeader)
	}
	if int64(n) > fileSize-8 {
		return 0, fmt.Errorf("header length %d exceeds the %d bytes that follow it (truncated?)", n, fileSize-8)
	}
	return int64(n), nil
}

// parseHeader decodes a safetensors header and checks that the tensors fill the dataBytes after it
// exactly, without holes or overlaps, as the format demands. Entries come sorted by offset.
// https://huggingface.co/docs/safetensors (format section).
func parseHeader(header []byte, dataBytes int64) ([]entry, error) {
	entries, err := decodeHeader(header)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		if a.begin != b.begin {
			return int(min(max(a.begin-b.begin, -1), 1))
		}
		return int(min(max(a.end-b.end, -1), 1))
	})
	var at int64
	for i, e := range entries {
		switch {
		case e.begin < at:
			return nil, fmt.Errorf("tensor %q: data_offsets [%d, %d] overlap those of %q, which end at %d", e.name, e.begin, e.end, entries[i-1].name, at)
		case e.begin > at:
			return nil, fmt.Errorf("tensor %q: data_offsets [%d, %d] leave a hole after %d", e.name, e.begin, e.end, at)
		case e.end > dataBytes:
			return nil, fmt.Errorf("tensor %q: data_offsets [%d, %d] end beyond the file's %d data bytes (truncated?)", e.name, e.begin, e.end, dataBytes)
		}
		at = e.end
	}
	if at != dataBytes {
		return nil, fmt.Errorf("%d bytes follow the last tensor", dataBytes-at)
	}
	return entries, nil
}

// decodeHeader decodes the header's JSON object key by key, since encoding/json would let the last
// of two equal names win.
func decodeHeader(header []byte) ([]entry, error) {
	dec := json.NewDecoder(bytes.NewReader(header))
	if tok, err := dec.Token(); err != nil {
		return nil, noEOF(err)
	} else if tok != json.Delim('{') {
		return nil, fmt.Errorf("invalid header: begins with %v, want a JSON object", tok)
	}
	var entries []entry
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, noEOF(err)
		}
		name := tok.(string) // the decoder admits no other key
		if seen[name] {
			return nil, fmt.Errorf("tensor %q is named twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := dec.Decode(&map[string]string{}); err != nil {
				return nil, fmt.Errorf("__metadata__: %w", noEOF(err))
			}
			continue
		}
		e, err := decodeEntry(dec, name)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		entries = append(entries, e)
	}
	if _, err := dec.Token(); err != nil {
		return nil, noEOF(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("data after the JSON object")
	}
	return entries, nil
}

func decodeEntry(dec *json.Decoder, name string) (entry, error) {
	var raw struct {
		DType   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	if err := dec.Decode(&raw); err != nil {
		return entry{}, noEOF(err)
	}
	size, ok := elementBytes[raw.DType]
	if !ok {
		return entry{}, fmt.Errorf("unknown dtype %q", raw.DType)
	}
	if len(raw.Offsets) != 2 || raw.Offsets[0] < 0 || raw.Offsets[1] < raw.Offsets[0] {
		return entry{}, fmt.Errorf("invalid data_offsets %v: want a range", raw.Offsets)
	}
	e := entry{name: name, dtype: raw.DType, begin: raw.Offsets[0], end: raw.Offsets[1]}
	for _, n := range raw.Shape {
		if n < 0 || n > 0 && size > math.MaxInt64/n {
			return entry{}, fmt.Errorf("invalid shape %v", raw.Shape)
		}
		size *= n
		e.shape = append(e.shape, int(n))
	}
	if size != e.end-e.begin {
		return entry{}, fmt.Errorf("data_offsets [%d, %d] hold %d bytes, shape %v of %s needs %d", e.begin, e.end, e.end-e.begin, raw.Shape, raw.DType, size)
	}
	return e, nil
}

// noEOF names the end of the input as what it means here.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
