package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/prefillonly/prefillonly/engine"
)

// reader reads a header and hands out the raw frames in order. The first error sticks; reads after
// it return zero values.
type reader struct {
	src    bytes.Reader
	dec    *msgpack.Decoder
	frames [][]byte // not yet handed out
	err    error
	keyBuf [32]byte // longer keys are not ours
}

func newReader(frames [][]byte) *reader {
	r := &reader{dec: msgpack.GetDecoder(), frames: frames[1:]}
	r.src.Reset(frames[0])
	r.dec.Reset(&r.src)
	return r
}

func (r *reader) release() { msgpack.PutDecoder(r.dec) }

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// checkDecoded passes a decoded value on and keeps the error.
func checkDecoded[T any](r *reader, v T, err error) T {
	if err != nil {
		r.fail("header: %v", err)
		var zero T
		return zero
	}
	return v
}

// checkLength passes on the number of elements a header claims, each of which takes at least size bytes.
func (r *reader) checkLength(n int, err error, size int) int {
	n = checkDecoded(r, n, err)
	if r.err == nil && (n < 0 || n > r.src.Len()/size) {
		r.fail("header claims %d elements, %d bytes remain", n, r.src.Len())
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *reader) mapLen() int {
	n, err := r.dec.DecodeMapLen()
	return r.checkLength(n, err, 2)
}

func (r *reader) arrayLen() int {
	n, err := r.dec.DecodeArrayLen()
	return r.checkLength(n, err, 1)
}

// readKey reads a map's key; it is valid until the next call.
func (r *reader) readKey() []byte {
	n, err := r.dec.DecodeBytesLen()
	n = r.checkLength(n, err, 1)
	if n > len(r.keyBuf) {
		r.fail("header: a key of %d bytes", n)
		return nil
	}
	if r.err != nil || n == 0 {
		return nil
	}
	return checkDecoded(r, r.keyBuf[:n], r.dec.ReadFull(r.keyBuf[:n]))
}

// readLeading reads a field that must stand here.
func (r *reader) readLeading(want string) uint64 {
	if got := r.readKey(); r.err == nil && string(got) != want {
		r.fail("header: key %q where %q belongs", got, want)
	}
	return r.readUint()
}

func (r *reader) readObject(b body) { readBody(r, r.mapLen(), b) }

// skipValue passes over a value of any depth, without recursion.
func (r *reader) skipValue() {
	for left := 1; left > 0 && r.err == nil; left-- {
		code, err := r.dec.PeekCode()
		code = checkDecoded(r, code, err)
		switch {
		case r.err != nil:
		case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
			left += 2 * r.mapLen()
		case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
			left += r.arrayLen()
		case msgpcode.IsBin(code), msgpcode.IsString(code):
			r.readBytes()
		default:
			checkDecoded(r, 0, r.dec.Skip())
		}
	}
}

// expectEnd checks that nothing is left over.
func (r *reader) expectEnd() {
	if r.err == nil && r.src.Len() != 0 {
		r.fail("%d bytes after the header", r.src.Len())
	}
	if r.err == nil && len(r.frames) != 0 {
		r.fail("%d frames too many", len(r.frames))
	}
}

func (r *reader) readUint() uint64 {
	if r.err != nil {
		return 0
	}
	v, err := r.dec.DecodeUint64()
	return checkDecoded(r, v, err)
}

func (r *reader) readInt64() int64 {
	if r.err != nil {
		return 0
	}
	v, err := r.dec.DecodeInt64()
	return checkDecoded(r, v, err)
}

func (r *reader) readInt() int                { return int(r.readInt64()) }
func (r *reader) readDuration() time.Duration { return time.Duration(r.readInt64()) }

// count reads a number that cannot be negative and fits 31 bits.
func (r *reader) count() int {
	v := r.readInt64()
	if v < 0 || v > math.MaxInt32 {
		r.fail("header: a count of %d", v)
		return 0
	}
	return int(v)
}

// readUintUpTo reads an unsigned number up to limit.
func (r *reader) readUintUpTo(limit uint64) uint64 {
	v := r.readUint()
	if v > limit {
		r.fail("header: %d exceeds %d", v, limit)
		return 0
	}
	return v
}

func (r *reader) readBool() bool {
	v, err := r.dec.DecodeBool()
	return checkDecoded(r, v, err)
}

func (r *reader) readFloat32() float32 {
	v, err := r.dec.DecodeFloat32()
	return checkDecoded(r, v, err)
}

func (r *reader) readFloat64() float64 {
	v, err := r.dec.DecodeFloat64()
	return checkDecoded(r, v, err)
}

func (r *reader) readBytes() []byte {
	n, err := r.dec.DecodeBytesLen()
	n = r.checkLength(n, err, 1)
	if r.err != nil || n == 0 {
		return nil
	}
	b := make([]byte, n)
	return checkDecoded(r, b, r.dec.ReadFull(b))
}

func (r *reader) readString() string { return string(r.readBytes()) }

// readPacked reads raw bytes whose length is a multiple of size.
func (r *reader) readPacked(size int) []byte {
	b := r.readBytes()
	if len(b)%size != 0 {
		r.fail("header: %d bytes where elements have %d", len(b), size)
		return nil
	}
	return b
}

func (r *reader) readCounts() []uint64 {
	b := r.readPacked(8)
	if len(b) == 0 {
		return nil
	}
	list := make([]uint64, len(b)/8)
	for i := range list {
		list[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return list
}

func (r *reader) readWords() []uint32 { return wordsOf[uint32](r.readPacked(4)) }

// tokenSet passes on a set that was read where before none was. An empty one would allow all tokens.
func (r *reader) tokenSet(before, s engine.TokenSet) engine.TokenSet {
	if s.Empty() || !before.Empty() {
		r.fail("header: a set of %d tokens, %d of them in another form", s.Len()+before.Len(), before.Len())
	}
	return s
}

func (r *reader) readStrings() (list []string) {
	for range r.arrayLen() {
		list = append(list, r.readString())
	}
	return list
}

// readShape reads sizes of dimensions; -1 stands for any.
func (r *reader) readShape() (list []int) {
	for range r.arrayLen() {
		n := r.readInt64()
		if n < -1 || n > math.MaxInt32 {
			r.fail("header: a dimension of %d", n)
			return nil
		}
		list = append(list, int(n))
	}
	return list
}

func (r *reader) readTokenLogprobs() []engine.TokenLogprob { return readLogprobs(r.readPacked(8)) }

func (r *reader) readTokenBiases() []engine.TokenBias {
	b := r.readPacked(8)
	if len(b) == 0 {
		return nil
	}
	l := make([]engine.TokenBias, len(b)/8)
	for i := range l {
		l[i].ID = binary.LittleEndian.Uint32(b[8*i:])
		l[i].Bias = math.Float32frombits(binary.LittleEndian.Uint32(b[8*i+4:]))
	}
	return l
}

func (r *reader) readBans() []engine.Ban {
	var list []engine.Ban
	for flat := r.readWords(); len(flat) > 0; {
		if len(flat) < 2 || flat[0] > math.MaxInt32 || uint64(flat[1]) > uint64(len(flat)-2) {
			r.fail("ban %d is cut off or out of range", len(list))
			return nil
		}
		end := 2 + int(flat[1])
		list = append(list, engine.Ban{Tokens: append([]engine.TokenID(nil), flat[2:end]...), Before: int(flat[0])})
		flat = flat[end:]
	}
	return list
}

// nextFrame reads the number of elements and takes the frame that holds them.
func (r *reader) nextFrame() (int, []byte) {
	n := r.count()
	if r.err == nil && len(r.frames) == 0 {
		r.fail("a frame of %d elements is missing", n)
	}
	if r.err != nil {
		return 0, nil
	}
	f := r.frames[0]
	r.frames = r.frames[1:]
	return n, f
}

// readFrame takes the next frame as words, whose memory is the frame's.
func readFrame[T word](r *reader) []T {
	n, f := r.nextFrame()
	if r.err == nil && len(f) != 4*n {
		r.fail("a frame of %d bytes where %d words belong", len(f), n)
	}
	if r.err != nil {
		return nil
	}
	return wordsOf[T](f)
}

// readCopies takes the next frame as pairs of pages.
func (r *reader) readCopies() []Copy {
	n, f := r.nextFrame()
	if r.err == nil && len(f) != 8*n {
		r.fail("a frame of %d bytes where %d copies belong", len(f), n)
	}
	if r.err != nil || n == 0 {
		return nil
	}
	list := make([]Copy, n)
	for i := range list {
		list[i].Device = BlockID(binary.LittleEndian.Uint32(f[8*i:]))
		list[i].Host = BlockID(binary.LittleEndian.Uint32(f[8*i+4:]))
	}
	return list
}

// readWeights takes the next frame as 64-bit words.
func (r *reader) readWeights() []Weight {
	n, f := r.nextFrame()
	if r.err == nil && len(f) != 8*n {
		r.fail("a frame of %d bytes where %d weights belong", len(f), n)
	}
	if r.err != nil || n == 0 {
		return nil
	}
	list := make([]Weight, n)
	for i := range list {
		word := binary.LittleEndian.Uint64(f[8*i:])
		list[i] = Weight{Bytes: word &^ residentBit, Resident: word&residentBit != 0}
	}
	return list
}

func (r *reader) promptScores() []engine.PromptScore {
	n, f := r.nextFrame()
	if r.err == nil && n > len(f)/12 {
		r.fail("a frame of %d bytes where %d prompt scores belong", len(f), n)
	}
	if r.err != nil || n == 0 {
		return nil
	}
	scores := make([]engine.PromptScore, n)
	for i := range scores {
		if len(f) < 12 {
			r.fail("prompt score %d of %d is cut off", i, n)
			return nil
		}
		scores[i].Logprob = math.Float32frombits(binary.LittleEndian.Uint32(f))
		scores[i].Rank = binary.LittleEndian.Uint32(f[4:])
		top := uint64(binary.LittleEndian.Uint32(f[8:]))
		f = f[12:]
		if top > uint64(len(f)/8) {
			r.fail("prompt score %d of %d is cut off", i, n)
			return nil
		}
		scores[i].Top = readLogprobs(f[:8*top])
		f = f[8*top:]
	}
	if len(f) != 0 {
		r.fail("%d bytes after the prompt scores", len(f))
	}
	return scores
}

func readLogprobs(b []byte) []engine.TokenLogprob {
	if len(b) == 0 {
		return nil
	}
	l := make([]engine.TokenLogprob, len(b)/8)
	for i := range l {
		l[i].ID = binary.LittleEndian.Uint32(b[8*i:])
		l[i].Logprob = math.Float32frombits(binary.LittleEndian.Uint32(b[8*i+4:]))
	}
	return l
}
