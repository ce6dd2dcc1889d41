package wire

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/prefillonly/prefillonly/engine"
)

// headerSize is room for the header of an ordinary message.
const headerSize = 192

// map16 is msgpack's code of a map whose length is the two bytes that follow.
const map16 = 0xde

// writer writes a header and collects the raw frames. The encoder writes to memory, which takes
// everything, so its errors are left alone.
type writer struct {
	buf    *bytes.Buffer
	enc    *msgpack.Encoder
	count  int // fields written to the innermost map
	frames [][]byte
}

func newWriter() *writer {
	w := &writer{buf: bytes.NewBuffer(make([]byte, 0, headerSize)), enc: msgpack.GetEncoder(), frames: make([][]byte, 1, 3)}
	w.enc.Reset(w.buf)
	return w
}

func (w *writer) release() { msgpack.PutEncoder(w.enc) }

// mapStart remembers where a map began and how many fields its parent has so far.
type mapStart struct{ at, outer int }

func (w *writer) beginMap() mapStart {
	s := mapStart{at: w.buf.Len(), outer: w.count}
	w.buf.Write([]byte{map16, 0, 0})
	w.count = 0
	return s
}

func (w *writer) endMap(s mapStart) {
	binary.BigEndian.PutUint16(w.buf.Bytes()[s.at+1:], uint16(w.count))
	w.count = s.outer
}

func (w *writer) writeKey(k string) {
	w.count++
	_ = w.enc.EncodeString(k)
}

func (w *writer) writeUint(k string, v uint64) {
	if v != 0 {
		w.writeKey(k)
		_ = w.enc.EncodeUint(v)
	}
}

func writeInt[T ~int | ~int64](w *writer, k string, v T) {
	if v != 0 {
		w.writeKey(k)
		_ = w.enc.EncodeInt(int64(v))
	}
}

func (w *writer) writeBool(k string, v bool) {
	if v {
		w.writeKey(k)
		_ = w.enc.EncodeBool(v)
	}
}

func (w *writer) writeFloat32(k string, v float32) {
	if math.Float32bits(v) != 0 {
		w.writeKey(k)
		_ = w.enc.EncodeFloat32(v)
	}
}

func (w *writer) writeFloat64(k string, v float64) {
	if math.Float64bits(v) != 0 {
		w.writeKey(k)
		_ = w.enc.EncodeFloat64(v)
	}
}

func (w *writer) writeString(k, v string) {
	if v != "" {
		w.writeKey(k)
		_ = w.enc.EncodeString(v)
	}
}

// writeObject writes a part. One that has nothing to say is left out if it may be.
func (w *writer) writeObject(k string, b body, always bool) {
	before, fields := w.buf.Len(), w.count
	w.writeKey(k)
	s := w.beginMap()
	writeBody(w, b)
	if w.count == 0 && !always {
		w.buf.Truncate(before)
		w.count = fields
		return
	}
	w.endMap(s)
}

// writeArrayHead writes the head of an array of n maps; item writes each of them.
func (w *writer) writeArrayHead(k string, n int) {
	w.writeKey(k)
	_ = w.enc.EncodeArrayLen(n)
}

func (w *writer) item(b body) {
	s := w.beginMap()
	writeBody(w, b)
	w.endMap(s)
}

// writeStrings writes a list of strings as an array.
func (w *writer) writeStrings(k string, list []string) {
	if len(list) == 0 {
		return
	}
	w.writeArrayHead(k, len(list))
	for _, s := range list {
		_ = w.enc.EncodeString(s)
	}
}

// writeShape writes the sizes of dimensions as an array.
func (w *writer) writeShape(k string, shape []int) {
	if len(shape) == 0 {
		return
	}
	w.writeArrayHead(k, len(shape))
	for _, n := range shape {
		_ = w.enc.EncodeInt(int64(n))
	}
}

// writeCounts writes numbers of 8 bytes into the header, as raw bytes.
func (w *writer) writeCounts(k string, list []uint64) {
	if len(list) == 0 {
		return
	}
	b := make([]byte, 0, 8*len(list))
	for _, n := range list {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	w.writeKey(k)
	_ = w.enc.EncodeBytes(b)
}

// writeWords writes a short list of ids into the header, as raw bytes.
func (w *writer) writeWords(k string, ids []engine.TokenID) {
	if len(ids) != 0 {
		w.writeKey(k)
		_ = w.enc.EncodeBytes(bytesOf(ids))
	}
}

// writeTokenLogprobs writes pairs of an id and a float32 into the header, as raw bytes.
func (w *writer) writeTokenLogprobs(k string, l []engine.TokenLogprob) {
	if len(l) != 0 {
		w.writeKey(k)
		_ = w.enc.EncodeBytes(appendLogprobs(make([]byte, 0, 8*len(l)), l))
	}
}

func (w *writer) writeTokenBiases(k string, l []engine.TokenBias) {
	if len(l) == 0 {
		return
	}
	b := make([]byte, 0, 8*len(l))
	for _, e := range l {
		b = binary.LittleEndian.AppendUint32(b, e.ID)
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.Bias))
	}
	w.writeKey(k)
	_ = w.enc.EncodeBytes(b)
}

// writeBans writes for each ban Before, the number of Tokens and these, as raw words.
func (w *writer) writeBans(k string, bans []engine.Ban) {
	var flat []uint32
	for _, b := range bans {
		flat = append(flat, uint32(b.Before), uint32(len(b.Tokens)))
		flat = append(flat, b.Tokens...)
	}
	w.writeWords(k, flat)
}

// promptScores appends a frame: for each score its logprob, its rank, the length of Top, and Top's pairs.
func (w *writer) promptScores(k string, scores []engine.PromptScore) {
	if len(scores) == 0 {
		return
	}
	size := 0
	for _, s := range scores {
		size += 12 + 8*len(s.Top)
	}
	b := make([]byte, 0, size)
	for _, s := range scores {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s.Logprob))
		b = binary.LittleEndian.AppendUint32(b, s.Rank)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Top)))
		b = appendLogprobs(b, s.Top)
	}
	w.writeUint(k, uint64(len(scores)))
	w.frames = append(w.frames, b)
}

// writeFrame appends a frame of words, which is the list's own memory, and writes their number into the header.
func writeFrame[T word](w *writer, k string, list []T) {
	if len(list) == 0 {
		return
	}
	w.writeUint(k, uint64(len(list)))
	w.frames = append(w.frames, bytesOf(list))
}

// writeCopies appends a frame of pairs of pages and writes their number into the header.
func (w *writer) writeCopies(k string, list []Copy) {
	if len(list) == 0 {
		return
	}
	b := make([]byte, 0, 8*len(list))
	for _, c := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Device))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Host))
	}
	w.writeUint(k, uint64(len(list)))
	w.frames = append(w.frames, b)
}

// residentBit marks a Weight that is resident, in the word that holds its bytes.
const residentBit = 1 << 63

// writeWeights appends a frame of 64-bit words, and writes their number into the header.
func (w *writer) writeWeights(k string, list []Weight) {
	if len(list) == 0 {
		return
	}
	b := make([]byte, 0, 8*len(list))
	for _, weight := range list {
		word := weight.Bytes &^ residentBit
		if weight.Resident {
			word |= residentBit
		}
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	w.writeUint(k, uint64(len(list)))
	w.frames = append(w.frames, b)
}

func appendLogprobs(b []byte, l []engine.TokenLogprob) []byte {
	for _, e := range l {
		b = binary.LittleEndian.AppendUint32(b, e.ID)
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.Logprob))
	}
	return b
}
