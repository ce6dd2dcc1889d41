package events

import (
	"bytes"
	"encoding/binary"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/prefillonly/prefillonly/kvcache"
)

// Encode writes events of one rank as vLLM's publishers do (vllm/distributed/kv_events.py):
// msgpack of [seconds since 1970, [event, ...], rank]. Events are in the positional form, which
// consumers of every version read, with the last 64 bits of a hash as an unsigned integer, which is
// vLLM's default and all that older versions of NVIDIA Dynamo decode:
//
//	["BlockStored", [hash, ...], parent or nil, [token, ...], block size, nil, medium, nil]
//	["BlockRemoved", [hash, ...], medium]
//	["AllBlocksCleared"]
//
// A salted prompt's first block has the salt among its extra keys, in a ninth place: [[salt], nil, ...].
func Encode(unixSeconds float64, events []Event) []byte {
	var buf bytes.Buffer
	w := eventWriter{msgpack.NewEncoder(&buf)}
	w.array(3)
	_ = w.enc.EncodeFloat64(unixSeconds)
	w.array(len(events))
	rank := 0
	for i := range events {
		w.event(&events[i])
		rank = events[i].Rank
	}
	w.int(rank)
	return buf.Bytes()
}

// eventWriter encodes to memory, which takes everything, so the encoder's errors are left alone.
type eventWriter struct{ enc *msgpack.Encoder }

func (w eventWriter) array(n int)   { _ = w.enc.EncodeArrayLen(n) }
func (w eventWriter) text(s string) { _ = w.enc.EncodeString(s) }
func (w eventWriter) int(n int)     { _ = w.enc.EncodeInt(int64(n)) }
func (w eventWriter) null()         { _ = w.enc.EncodeNil() }

func (w eventWriter) hashes(list []kvcache.Hash) {
	w.array(len(list))
	for i := range list {
		w.hash(&list[i])
	}
}

func (w eventWriter) hash(h *kvcache.Hash) {
	_ = w.enc.EncodeUint64(shortHash(h))
}

func shortHash(h *kvcache.Hash) uint64 { return binary.BigEndian.Uint64(h[len(h)-8:]) }

func (w eventWriter) event(e *Event) {
	switch e.Change {
	case Stored:
		w.stored(e)
	case Removed:
		w.array(3)
		w.text("BlockRemoved")
		w.hashes(e.Hashes)
		w.text(e.Medium)
	case Cleared:
		w.array(1)
		w.text("AllBlocksCleared")
	}
}

func (w eventWriter) stored(e *Event) {
	if e.Salt == "" {
		w.array(8)
	} else {
		w.array(9)
	}
	w.text("BlockStored")
	w.hashes(e.Hashes)
	if e.Parent == kvcache.RootHash {
		w.null()
	} else {
		w.hash(&e.Parent)
	}
	w.array(len(e.Tokens))
	for _, id := range e.Tokens {
		w.int(int(id))
	}
	w.int(e.BlockTokens)
	w.null() // LoRA id
	w.text(e.Medium)
	w.null() // LoRA name
	if e.Salt == "" {
		return
	}
	w.array(len(e.Hashes))
	w.array(1)
	w.text(e.Salt)
	for range e.Hashes[1:] {
		w.null()
	}
}
