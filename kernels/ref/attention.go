package ref

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// KVBlockBytes is room for keys [KV][tokens][Dim] followed by values of the same shape.
func (b *Backend) KVBlockBytes(h kernels.Heads, tokens int) int64 {
	return 2 * 4 * int64(h.KV) * int64(tokens) * int64(h.Dim)
}

// ScratchBytes is the normalised input, also quantised, and the widest intermediate result.
func (b *Backend) ScratchBytes(rows, maxIn, maxOut int, _ kernels.LargestCodes) int64 {
	return 4 * int64(rows) * int64(2*maxIn+2*maxOut+1)
}

// keysAt and valuesAt are one position's key and value of one KV head.
func keysAt(h kernels.Heads, blockTokens int, blocks []kernels.KVBlock, head, pos int) []float32 {
	return kvVector(h, blockTokens, blocks, head, pos)
}

func valuesAt(h kernels.Heads, blockTokens int, blocks []kernels.KVBlock, head, pos int) []float32 {
	return kvVector(h, blockTokens, blocks, h.KV+head, pos)
}

func kvVector(h kernels.Heads, blockTokens int, blocks []kernels.KVBlock, plane, pos int) []float32 {
	block := blocks[pos/blockTokens]
	at := block.Off/4 + int64((plane*blockTokens+pos%blockTokens)*h.Dim)
	return block.Buf.(*buffer).floats[at : at+int64(h.Dim)]
}

// StoreKV normalises (if asked) and rotates queries and keys, and writes keys and values away.
func (b *Backend) StoreKV(qkv kernels.Mat, spec kernels.RopeSpec, blockTokens int, segs []kernels.Segment) {
	h := spec.Heads
	angles, _ := spec.Rope.(*rope)
	if angles == nil {
		angles = &rope{max: math.MaxInt}
	}
	if _, err := spec.WholeNorms(); err != nil {
		b.recordFailure("%w", err)
		return
	}
	for _, s := range segs {
		if !b.fitsBlocks(s, blockTokens) {
			return
		}
		if s.Pos+s.Rows > angles.max {
			b.recordFailure("invalid position %d: the rotary table has %d", s.Pos+s.Rows-1, angles.max)
			return
		}
		runParallel(s.Rows, func(i int) {
			r, pos := matrixRow(qkv, s.Row+i), s.Pos+i
			queries, keys, values := r[:h.Q*h.Dim], r[h.Q*h.Dim:(h.Q+h.KV)*h.Dim], r[(h.Q+h.KV)*h.Dim:]
			normaliseHeads(queries, spec.QNorm, spec.Eps)
			for head := range h.Q {
				rotateHead(queries[head*h.Dim:(head+1)*h.Dim], angles, pos)
			}
			normaliseHeads(keys, spec.KNorm, spec.Eps)
			for head := range h.KV {
				at := keysAt(h, blockTokens, s.Blocks, head, pos)
				copy(at, keys[head*h.Dim:])
				rotateHead(at, angles, pos)
				copy(valuesAt(h, blockTokens, s.Blocks, head, pos), values[head*h.Dim:])
			}
		})
	}
}

// fitsBlocks says whether the segment's blocks reach its last position.
func (b *Backend) fitsBlocks(s kernels.Segment, blockTokens int) bool {
	if s.Pos < 0 || max(s.Len, s.Pos+s.Rows) > len(s.Blocks)*blockTokens {
		b.recordFailure("positions %d to %d of %d do not fit in %d blocks of %d tokens", s.Pos, s.Pos+s.Rows-1, s.Len, len(s.Blocks), blockTokens)
		return false
	}
	return true
}

// normaliseHeads normalises as many elements at a time as there are weights, if there are any.
func normaliseHeads(v []float32, w kernels.Vector, eps float32) {
	if w == nil {
		return
	}
	for ; len(v) > 0; v = v[w.Len():] {
		rmsNorm(v[:w.Len()], w.(*vector).weight, eps)
	}
}

// rotateHead rotates a head's pairs (i, i+dim/2) by pos's angles. (Su et al., RoFormer, 2021, section 3.2, with Llama's pairing.)
func rotateHead(v []float32, r *rope, pos int) {
	lo, hi := v[:r.half], v[r.half:2*r.half]
	cos, sin := r.cos[pos*r.half:], r.sin[pos*r.half:]
	for i := range lo {
		x, y := lo[i], hi[i]
		lo[i] = float32(x*cos[i]) - float32(y*sin[i])
		hi[i] = float32(y*cos[i]) + float32(x*sin[i])
	}
}

// Attention is causal softmax attention, two passes over the keys of each query.
func (b *Backend) Attention(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment) {
	b.computeAttention(dst, qkv, spec, blockTokens, segs, func(_ kernels.Segment, pos int) int { return pos + 1 })
}

// computeAttention lets each query see the positions from its window's first one up to end.
func (b *Backend) computeAttention(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment, end func(s kernels.Segment, pos int) int) {
	h := spec.Heads
	for _, s := range segs {
		if !b.fitsBlocks(s, blockTokens) {
			return
		}
		runParallel(s.Rows*h.Q, func(task int) {
			i, head := task/h.Q, task%h.Q
			at, first := head*h.Dim, 0
			if spec.Window > 0 {
				first = max(0, s.Pos+i-spec.Window+1)
			}
			attendQuery(matrixRow(dst, s.Row+i)[at:at+h.Dim], matrixRow(qkv, s.Row+i)[at:at+h.Dim], spec, blockTokens, s.Blocks, head, first, end(s, s.Pos+i))
		})
	}
}

// attendQuery computes one query of one head, which sees positions [first, end).
func attendQuery(out, q []float32, spec kernels.AttentionSpec, blockTokens int, blocks []kernels.KVBlock, head, first, end int) {
	h := spec.Heads
	kvHead := head / (h.Q / h.KV)
	scores := make([]float32, end-first)
	top := float32(math.Inf(-1))
	for i := range scores {
		scores[i] = dot(q, keysAt(h, blockTokens, blocks, kvHead, first+i)) * spec.Scale
		if spec.Cap > 0 {
			scores[i] = spec.Cap * float32(math.Tanh(float64(scores[i]/spec.Cap)))
		}
		top = max(top, scores[i])
	}
	total := 0.0
	for i, s := range scores {
		scores[i] = float32(math.Exp(float64(s - top)))
		total += float64(scores[i])
	}
	clear(out)
	for i, p := range scores {
		p = float32(float64(p) / total)
		for j, v := range valuesAt(h, blockTokens, blocks, kvHead, first+i) {
			out[j] += float32(p * v)
		}
	}
}
