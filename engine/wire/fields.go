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

// write writes the fields of b into the map that w is in.
func write(w *writer, b body) { b.fields(&fields{w: w}) }

// read reads n keys and values into b.
func read(r *reader, n int, b body) {
	f := fields{r: r, left: n}
	for f.next(); len(f.key) > 0 && r.err == nil; {
		before := f.left
		b.fields(&f)
		if f.left == before && len(f.key) > 0 {
			r.skip()
			f.next()
		}
	}
}

// next reads the next key; an empty one is skipped with its value, as nobody's.
func (f *fields) next() {
	f.key = nil
	for f.left > 0 && len(f.key) == 0 && f.r.err == nil {
		f.left--
		if f.key = f.r.key(); len(f.key) == 0 && f.r.err == nil {
			f.r.skip()
		}
	}
}

// field visits one field.
func field[T any](f *fields, key string, v *T, put func(w *writer, key string, v T), get func(r *reader) T) {
	if f.w != nil {
		put(f.w, key, *v)
	} else if string(f.key) == key {
		*v = get(f.r)
		f.next()
	}
}

func (f *fields) string(key string, v *string) { field(f, key, v, (*writer).string, (*reader).string) }
func (f *fields) bool(key string, v *bool)     { field(f, key, v, (*writer).bool, (*reader).bool) }
func (f *fields) float32(key string, v *float32) {
	field(f, key, v, (*writer).float32, (*reader).float32)
}
func (f *fields) float64(key string, v *float64) {
	field(f, key, v, (*writer).float64, (*reader).float64)
}
func (f *fields) strings(key string, v *[]string) {
	field(f, key, v, (*writer).strings, (*reader).strings)
}
func (f *fields) shape(key string, v *[]int) { field(f, key, v, (*writer).shape, (*reader).shape) }
func (f *fields) counts(key string, v *[]uint64) {
	field(f, key, v, (*writer).counts, (*reader).counts)
}
func (f *fields) copies(key string, v *[]Copy) { field(f, key, v, (*writer).copies, (*reader).copies) }
func (f *fields) weights(key string, v *[]Weight) {
	field(f, key, v, (*writer).weights, (*reader).weights)
}
func (f *fields) words(key string, v *[]uint32) { field(f, key, v, (*writer).words, (*reader).words) }

// tokenSet is a set of tokens, under one key as ids or under the other as bits.
func (f *fields) tokenSet(ids, bits string, v *engine.TokenSet) {
	field(f, ids, v,
		func(w *writer, key string, s engine.TokenSet) {
			if s.Bits() == nil {
				w.words(key, s.IDs())
			}
		},
		func(r *reader) engine.TokenSet { return r.tokenSet(*v, engine.NewTokenSet(r.words()...)) })
	field(f, bits, v,
		func(w *writer, key string, s engine.TokenSet) { w.words(key, s.Bits()) },
		func(r *reader) engine.TokenSet { return r.tokenSet(*v, engine.TokenSetOfBits(r.words())) })
}

func (f *fields) bans(key string, v *[]engine.Ban) { field(f, key, v, (*writer).bans, (*reader).bans) }
func (f *fields) biases(key string, v *[]engine.TokenBias) {
	field(f, key, v, (*writer).biases, (*reader).biases)
}
func (f *fields) logprobs(key string, v *[]engine.TokenLogprob) {
	field(f, key, v, (*writer).logprobs, (*reader).logprobs)
}
func (f *fields) promptScores(key string, v *[]engine.PromptScore) {
	field(f, key, v, (*writer).promptScores, (*reader).promptScores)
}

// signed is a number that may be negative; count is one that may not and fits 31 bits.
func (f *fields) signed(key string, v *int) { field(f, key, v, writeInt[int], (*reader).int) }
func (f *fields) count(key string, v *int)  { field(f, key, v, writeInt[int], (*reader).count) }

func (f *fields) duration(key string, v *time.Duration) {
	field(f, key, v, writeInt[time.Duration], (*reader).duration)
}

// number is an unsigned number of any width.
func number[T ~uint8 | ~uint32 | ~uint64](f *fields, key string, v *T) {
	upTo(f, key, v, ^T(0))
}

// upTo is a number that is at most limit.
func upTo[T ~uint8 | ~uint32 | ~uint64](f *fields, key string, v *T, limit T) {
	field(f, key, v,
		func(w *writer, key string, v T) { w.uint(key, uint64(v)) },
		func(r *reader) T { return T(r.small(uint64(limit))) })
}

// frame is a list of words in a frame of its own.
func frame[T word](f *fields, key string, v *[]T) { field(f, key, v, writeFrame[T], readFrame[T]) }

// object is a part that is always there; it is left out when it writes nothing.
func (f *fields) object(key string, b body) {
	if f.w != nil {
		f.w.object(key, b, false)
	} else if string(f.key) == key {
		f.r.object(b)
		f.next()
	}
}

// pointer is a part that may be absent.
func pointer[T any, P interface {
	*T
	body
}](f *fields, key string, v **T) {
	partOf(f, key, v, func(p *T) body { return P(p) })
}

// partOf is pointer of a struct of package engine, which knows nothing of the wire.
func partOf[T any](f *fields, key string, v **T, of func(*T) body) {
	if f.w != nil {
		if *v != nil {
			f.w.object(key, of(*v), true)
		}
	} else if string(f.key) == key {
		*v = new(T)
		f.r.object(of(*v))
		f.next()
	}
}

// list is an array of parts.
func list[T any, P interface {
	*T
	body
}](f *fields, key string, v *[]T) {
	field(f, key, v, writeItems[T, P], readItems[T, P])
}

// variant is one form that a part of an interface type may take: it is written if v holds it.
func variant[I, T any](f *fields, key string, v *I, of func(*T) body) {
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
	w.array(key, len(items))
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
		if r.object(P(&item)); r.err != nil {
			return nil
		}
		items = append(items, item)
	}
	return items
}
