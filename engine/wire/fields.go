package wire

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// body is a message or a part of one, as fields of a msgpack map.
type body interface {
	// fields visits all fields in their order; see fields.
	fields(f *fields)
}

// fields goes over a body's fields, to write those that are not zero or to read those that came. Both
// directions so have one list. A body that was written by it is read in one go; keys in another order take
// one more for each that is out of place.
type fields struct {
	w    *writer // one of the two is set
	r    *reader
	key  []byte // read last, whose value is next; empty when its field has taken that
	left int    // keys not read yet
}

// writeBody writes the fields of b into the map that w is in.
func writeBody(w *writer, b body) { b.fields(&fields{w: w}) }

// readBody reads n keys and values into b.
func readBody(r *reader, n int, b body) {
	f := fields{r: r, left: n}
	for f.readNextKey(); len(f.key) > 0 && r.err == nil; {
		before := f.left
		b.fields(&f)
		if f.left == before && len(f.key) > 0 {
			r.skipValue()
			f.readNextKey()
		}
	}
}

// readNextKey reads the next key; an empty one is skipped with its value, as nobody's.
func (f *fields) readNextKey() {
	f.key = nil
	for f.left > 0 && len(f.key) == 0 && f.r.err == nil {
		f.left--
		if f.key = f.r.readKey(); len(f.key) == 0 && f.r.err == nil {
			f.r.skipValue()
		}
	}
}

// visitField visits one field.
func visitField[T any](f *fields, key string, v *T, put func(w *writer, key string, v T), get func(r *reader) T) {
	if f.w != nil {
		put(f.w, key, *v)
	} else if string(f.key) == key {
		*v = get(f.r)
		f.readNextKey()
	}
}

func (f *fields) visitString(key string, v *string) {
	visitField(f, key, v, (*writer).writeString, (*reader).readString)
}
func (f *fields) visitBool(key string, v *bool) {
	visitField(f, key, v, (*writer).writeBool, (*reader).readBool)
}
func (f *fields) visitFloat32(key string, v *float32) {
	visitField(f, key, v, (*writer).writeFloat32, (*reader).readFloat32)
}
func (f *fields) visitFloat64(key string, v *float64) {
	visitField(f, key, v, (*writer).writeFloat64, (*reader).readFloat64)
}
func (f *fields) visitStrings(key string, v *[]string) {
	visitField(f, key, v, (*writer).writeStrings, (*reader).readStrings)
}
func (f *fields) visitShape(key string, v *[]int) {
	visitField(f, key, v, (*writer).writeShape, (*reader).readShape)
}
func (f *fields) visitCounts(key string, v *[]uint64) {
	visitField(f, key, v, (*writer).writeCounts, (*reader).readCounts)
}
func (f *fields) visitCopies(key string, v *[]Copy) {
	visitField(f, key, v, (*writer).writeCopies, (*reader).readCopies)
}
func (f *fields) visitWeights(key string, v *[]Weight) {
	visitField(f, key, v, (*writer).writeWeights, (*reader).readWeights)
}
func (f *fields) visitWords(key string, v *[]uint32) {
	visitField(f, key, v, (*writer).writeWords, (*reader).readWords)
}

// tokenSet is a set of tokens, under one key as ids or under the other as bits.
func (f *fields) tokenSet(ids, bits string, v *engine.TokenSet) {
	visitField(f, ids, v,
		func(w *writer, key string, s engine.TokenSet) {
			if s.Bits() == nil {
				w.writeWords(key, s.IDs())
			}
		},
		func(r *reader) engine.TokenSet { return r.tokenSet(*v, engine.NewTokenSet(r.readWords()...)) })
	visitField(f, bits, v,
		func(w *writer, key string, s engine.TokenSet) { w.writeWords(key, s.Bits()) },
		func(r *reader) engine.TokenSet { return r.tokenSet(*v, engine.TokenSetOfBits(r.readWords())) })
}

func (f *fields) visitBans(key string, v *[]engine.Ban) {
	visitField(f, key, v, (*writer).writeBans, (*reader).readBans)
}
func (f *fields) visitTokenBiases(key string, v *[]engine.TokenBias) {
	visitField(f, key, v, (*writer).writeTokenBiases, (*reader).readTokenBiases)
}
func (f *fields) visitTokenLogprobs(key string, v *[]engine.TokenLogprob) {
	visitField(f, key, v, (*writer).writeTokenLogprobs, (*reader).readTokenLogprobs)
}
func (f *fields) promptScores(key string, v *[]engine.PromptScore) {
	visitField(f, key, v, (*writer).promptScores, (*reader).promptScores)
}

// visitInt is a number that may be negative; count is one that may not and fits 31 bits.
func (f *fields) visitInt(key string, v *int) {
	visitField(f, key, v, writeInt[int], (*reader).readInt)
}
func (f *fields) count(key string, v *int) { visitField(f, key, v, writeInt[int], (*reader).count) }

func (f *fields) visitDuration(key string, v *time.Duration) {
	visitField(f, key, v, writeInt[time.Duration], (*reader).readDuration)
}

// visitUint is an unsigned number of any width.
func visitUint[T ~uint8 | ~uint32 | ~uint64](f *fields, key string, v *T) {
	upTo(f, key, v, ^T(0))
}

// upTo is a number that is at most limit.
func upTo[T ~uint8 | ~uint32 | ~uint64](f *fields, key string, v *T, limit T) {
	visitField(f, key, v,
		func(w *writer, key string, v T) { w.writeUint(key, uint64(v)) },
		func(r *reader) T { return T(r.readUintUpTo(uint64(limit))) })
}

// visitFrame is a list of words in a frame of its own.
func visitFrame[T word](f *fields, key string, v *[]T) {
	visitField(f, key, v, writeFrame[T], readFrame[T])
}

// visitObject is a part that is always there; it is left out when it writes nothing.
func (f *fields) visitObject(key string, b body) {
	if f.w != nil {
		f.w.writeObject(key, b, false)
	} else if string(f.key) == key {
		f.r.readObject(b)
		f.readNextKey()
	}
}

// visitPointer is a part that may be absent.
func visitPointer[T any, P interface {
	*T
	body
}](f *fields, key string, v **T) {
	partOf(f, key, v, func(p *T) body { return P(p) })
}

// partOf is pointer of a struct of package engine, which knows nothing of the wire.
func partOf[T any](f *fields, key string, v **T, of func(*T) body) {
	if f.w != nil {
		if *v != nil {
			f.w.writeObject(key, of(*v), true)
		}
	} else if string(f.key) == key {
		*v = new(T)
		f.r.readObject(of(*v))
		f.readNextKey()
	}
}

// visitList is an array of parts.
func visitList[T any, P interface {
	*T
	body
}](f *fields, key string, v *[]T) {
	visitField(f, key, v, writeItems[T, P], readItems[T, P])
}

// visitVariant is one form that a part of an interface type may take: it is written if v holds it.
func visitVariant[I, T any](f *fields, key string, v *I, of func(*T) body) {
	p, _ := any(*v).(*T)
	if partOf(f, key, &p, of); f.r != nil && p != nil {
		*v = any(p).(I)
	}
}

// writeItems writes a list that is not empty as an array of maps.
func writeItems[T any, P interface {
	*T
	body
}](w *writer, key string, items []T) {
	if len(items) == 0 {
		return
	}
	w.writeArrayHead(key, len(items))
	for i := range items {
		w.item(P(&items[i]))
	}
}

// readItems reads an array of maps. It grows with what is read, not with the claimed length.
func readItems[T any, P interface {
	*T
	body
}](r *reader) []T {
	n := r.arrayLen()
	var items []T
	for range n {
		var item T
		if r.readObject(P(&item)); r.err != nil {
			return nil
		}
		items = append(items, item)
	}
	return items
}
