package events

import (
	"bytes"
	"encoding/binary"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/prefillonly/prefillonly/engine"
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
	w.writeArrayLen(3)
	_ = w.enc.EncodeFloat64(unixSeconds)
	w.writeArrayLen(len(events))
	rank := 0
	for i := range events {
		w.event(&events[i])
		rank = events[i].Rank
	}
	w.writeInt(rank)
	return buf.Bytes()
}

// eventWriter encodes to memory, which takes everything, so the encoder's errors are left alone.
type eventWriter struct{ enc *msgpack.Encoder }

func (w eventWriter) writeArrayLen(n int) { _ = w.enc.EncodeArrayLen(n) }
func (w eventWriter) writeText(s string)  { _ = w.enc.EncodeString(s) }
func (w eventWriter) writeInt(n int)      { _ = w.enc.EncodeInt(int64(n)) }
func (w eventWriter) writeNull()          { _ = w.enc.EncodeNil() }

func (w eventWriter) writeHashes(list []kvcache.Hash) {
	w.writeArrayLen(len(list))
	for i := range list {
		w.writeHash(&list[i])
	}
}

func (w eventWriter) writeHash(h *kvcache.Hash) {
	_ = w.enc.EncodeUint64(shortHash(h))
}

func shortHash(h *kvcache.Hash) uint64 { return binary.BigEndian.Uint64(h[len(h)-8:]) }

func (w eventWriter) event(e *Event) {
	switch e.Change {
	case Stored:
		w.writeStored(e)
	case Removed:
		w.writeArrayLen(3)
		w.writeText("BlockRemoved")
		w.writeHashes(e.Hashes)
		w.writeText(e.Medium)
	case Cleared:
		w.writeArrayLen(1)
		w.writeText("AllBlocksCleared")
	}
}

func (w eventWriter) writeStored(e *Event) {
	adapter, salt := engine.CutCacheSalt(e.Salt)
	if salt == "" {
		w.writeArrayLen(8)
	} else {
		w.writeArrayLen(9)
	}
	w.writeText("BlockStored")
	w.writeHashes(e.Hashes)
	if e.Parent == kvcache.RootHash {
		w.writeNull()
	} else {
		w.writeHash(&e.Parent)
	}
	w.writeArrayLen(len(e.Tokens))
	for _, id := range e.Tokens {
		w.writeInt(int(id))
	}
	w.writeInt(e.BlockTokens)
	w.writeNull() // LoRA id
	w.writeText(e.Medium)
	if adapter == "" {
		w.writeNull() // LoRA name
	} else {
		w.writeText(adapter)
	}
	if salt == "" {
		return
	}
	w.writeArrayLen(len(e.Hashes))
	w.writeArrayLen(1)
	w.writeText(salt)
	for range e.Hashes[1:] {
		w.writeNull()
	}
}
