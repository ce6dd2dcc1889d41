package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// attentionCase is a shape of attention and the sequences of one call.
type attentionCase struct {
	heads       kernels.Heads
	blockTokens int
	window      int
	norm        bool    // per-head norms before the rotation
	deviation   float64 // of queries and keys
	segs        []span
}

// span is a sequence of which cached tokens are stored before the call and rows computed in it.
type span struct{ cached, rows int }

func (c attentionCase) String() string {
	return fmt.Sprintf("%d-%dx%d-block%d-window%d-norm=%t-%v", c.heads.Q, c.heads.KV, c.heads.Dim, c.blockTokens, c.window, c.norm, c.segs)
}

var attentionCases = []attentionCase{
	{kernels.Heads{Q: 1, KV: 1, Dim: 16}, 16, 0, false, 1, []span{{0, 1}}},
	{kernels.Heads{Q: 2, KV: 2, Dim: 24}, 16, 0, false, 1, []span{{0, 17}}},
	{kernels.Heads{Q: 4, KV: 2, Dim: 32}, 16, 0, false, 1, []span{{5, 40}, {0, 3}}},
	{kernels.Heads{Q: 3, KV: 3, Dim: 48}, 32, 0, true, 1, []span{{31, 2}, {33, 1}, {1, 31}}},
	{kernels.Heads{Q: 14, KV: 2, Dim: 64}, 32, 0, false, 1, []span{{100, 150}, {0, 129}}},
	{kernels.Heads{Q: 14, KV: 2, Dim: 64}, 64, 100, false, 2, []span{{0, 300}, {257, 70}}},
	{kernels.Heads{Q: 8, KV: 1, Dim: 64}, 16, 0, true, 1, []span{{511, 3}, {513, 65}, {600, 1}}},
	{kernels.Heads{Q: 5, KV: 1, Dim: 80}, 64, 0, false, 2, []span{{63, 67}}},
	{kernels.Heads{Q: 2, KV: 1, Dim: 96}, 16, 1, false, 1, []span{{3, 20}}},
	{kernels.Heads{Q: 16, KV: 2, Dim: 128}, 32, 0, true, 1, []span{{190, 80}, {1000, 1}}},
	{kernels.Heads{Q: 4, KV: 4, Dim: 128}, 16, 300, false, 1, []span{{700, 33}}},
	{kernels.Heads{Q: 2, KV: 1, Dim: 256}, 64, 33, true, 1, []span{{0, 90}}},
}

// sequence is one sequence's queries, keys and values before StoreKV, and where they go.
type sequence struct {
	qkv    []float64 // [tokens][QKVCols]
	tokens int
	blocks []kernels.KVBlock
}

// attentionRun holds what the calls for one case share.
type attentionRun struct {
	*fixture
	c        attentionCase
	spec     kernels.RopeSpec
	oracle   Attention
	bothWays kernels.Encoders // nil: attention is causal
	cap      float32
}

func newAttentionRun(d *fixture, c attentionCase) *attentionRun {
	r := &attentionRun{fixture: d, c: c, spec: kernels.RopeSpec{Heads: c.heads, Eps: normEps}}
	r.oracle = Attention{Heads: c.heads, Type: d.ActType(), Eps: normEps, Scale: float64(r.attentionSpec().Scale), Window: c.window}
	freq := make([]float32, c.heads.Dim/2)
	for i := range freq {
		freq[i] = float32(1 / (1 + 3*float64(i)))
	}
	r.setRotation(freq, 1.25)
	if c.norm {
		r.spec.QNorm, r.oracle.QNorm = d.NormWeight(c.heads.Dim)
		r.spec.KNorm, r.oracle.KNorm = d.NormWeight(c.heads.Dim)
	}
	return r
}

// setRotation sets the rotation.
func (r *attentionRun) setRotation(freq []float32, scale float32) {
	const positions = 2048
	rope, err := r.NewRope(freq, scale, positions)
	if err != nil {
		r.T.Fatal(err)
	}
	if rope.MaxPositions() < positions {
		r.T.Fatalf("MaxPositions() = %d, want %d", rope.MaxPositions(), positions)
	}
	r.spec.Rope, r.oracle.Freq, r.oracle.RopeScale = rope, freq, float64(scale)
}

// drawSequence draws tokens and gives them blocks in random order in memory full of NaN.
func (r *attentionRun) drawSequence(tokens int) *sequence {
	h := r.c.heads
	s := &sequence{tokens: tokens}
	for range tokens {
		s.qkv = append(s.qkv, r.Normal((h.Q+h.KV)*h.Dim, r.c.deviation)...)
		s.qkv = append(s.qkv, r.Normal(h.KV*h.Dim, 1)...)
	}
	s.qkv = Rounded(r.ActType(), s.qkv)
	s.blocks = r.newBlocks((tokens + r.c.blockTokens - 1) / r.c.blockTokens)
	return s
}

// newBlocks makes n blocks, scattered and full of NaN (all bits set), as blocks taken over from others may be.
func (r *attentionRun) newBlocks(n int) []kernels.KVBlock {
	size := r.KVBlockBytes(r.c.heads, r.c.blockTokens)
	buf := r.MustAlloc(size * int64(n+1))
	garbage := make([]byte, size*int64(n+1))
	for i := range garbage {
		garbage[i] = 0xff
	}
	r.Write(buf, 0, garbage)
	blocks := make([]kernels.KVBlock, n)
	for i, place := range r.Random.Perm(n) {
		blocks[i] = kernels.KVBlock{Buf: buf, Off: size * int64(place+1)}
	}
	return blocks
}

// part is a range of a sequence's tokens in a call.
type part struct {
	*sequence
	from, to int
}

// runAttention runs StoreKV and, if attend, Attention on the parts side by side, and returns the matrices.
func (r *attentionRun) runAttention(attend bool, parts ...part) (qkv, dst kernels.Mat) {
	h := r.c.heads
	var values []float64
	var segs []kernels.Segment
	rows := 0
	for _, p := range parts {
		values = append(values, p.qkv[p.from*h.QKVCols():p.to*h.QKVCols()]...)
		segs = append(segs, kernels.Segment{Row: rows, Rows: p.to - p.from, Pos: p.from, Blocks: p.blocks, Len: p.tokens})
		rows += p.to - p.from
	}
	qkv = r.Mat(r.ActType(), rows, h.QKVCols(), values)
	r.StoreKV(qkv, r.spec, r.c.blockTokens, segs)
	if attend {
		dst = r.Mat(r.ActType(), rows, h.Q*h.Dim, nil)
		if r.bothWays != nil {
			r.bothWays.AttentionBothWays(dst, qkv, r.attentionSpec(), r.c.blockTokens, segs)
		} else {
			r.Attention(dst, qkv, r.attentionSpec(), r.c.blockTokens, segs)
		}
	}
	r.MustSync()
	return qkv, dst
}

func (r *attentionRun) attentionSpec() kernels.AttentionSpec {
	return kernels.AttentionSpec{Heads: r.c.heads, Scale: 0.11, Window: r.c.window, Cap: r.cap}
}

// expectedOutput is what the oracle says of the part's queries after StoreKV and of its attention.
func (r *attentionRun) expectedOutput(p part) (queries, out []float64) {
	return r.oracle.Of(p.qkv, p.from, p.to)
}

// queriesOf picks the queries out of rows of queries, keys and values.
func (r *attentionRun) queriesOf(qkv []float64) []float64 {
	h := r.c.heads
	var q []float64
	for at := 0; at < len(qkv); at += h.QKVCols() {
		q = append(q, qkv[at:at+h.Q*h.Dim]...)
	}
	return q
}

func (s suite) testAttention(t *testing.T) {
	for _, c := range attentionCases {
		t.Run(c.String(), func(t *testing.T) { s.compareAttention(newAttentionRun(newFixture(t, s.open(t)), c)) })
	}
}

// testCopiedBlocks goes on from the middle of a block that was copied from another sequence's, which
// began alike and went on otherwise: the same bits as from its own.
func (s suite) testCopiedBlocks(t *testing.T) {
	for _, c := range attentionCases {
		t.Run(c.String(), func(t *testing.T) {
			r := newAttentionRun(newFixture(t, s.open(t)), c)
			shared := c.blockTokens + c.blockTokens/2 + 1
			first, own, over := r.drawSequence(2*c.blockTokens), r.drawSequence(shared+7), (*sequence)(nil)
			copy(own.qkv, first.qkv[:shared*c.heads.QKVCols()])
			over = &sequence{own.qkv, own.tokens, r.newBlocks(2)}
			r.runAttention(false, part{first, 0, first.tokens})
			r.runAttention(false, part{own, 0, shared})
			for i, b := range first.blocks {
				r.CopyKV(over.blocks[i], b, r.KVBlockBytes(c.heads, c.blockTokens))
			}
			_, want := r.runAttention(true, part{own, shared, own.tokens})
			_, got := r.runAttention(true, part{over, shared, over.tokens})
			checkValues(r.T, "attention over copied blocks", Tolerance{}, r.Values(got), r.Values(want))
		})
	}
}

// compareAttention stores what the case says is cached, or all where rows see what follows them, computes the rest in one call, and
// compares.
func (s suite) compareAttention(r *attentionRun) {
	var parts []part
	var queries, want []float64
	for _, seg := range r.c.segs {
		tokens, stored := seg.cached+seg.rows, seg.cached
		if r.bothWays != nil {
			tokens += 3
			stored = tokens
		}
		seq := r.drawSequence(tokens)
		if stored > 0 {
			r.runAttention(false, part{seq, 0, stored})
		}
		p := part{seq, seg.cached, seg.cached + seg.rows}
		parts = append(parts, p)
		q, out := r.expectedOutput(p)
		queries, want = append(queries, q...), append(want, out...)
	}
	qkv, dst := r.runAttention(true, parts...)
	checkValues(r.T, "queries", s.tol, r.queriesOf(r.Values(qkv)), queries)
	checkValues(r.T, "attention", s.tol, r.Values(dst), want)
}

// testSharedPrefix computes short ends of sequences that begin in the same blocks side by side: the same bits as of each alone, also
// beside one that is not a number.
func (s suite) testSharedPrefix(t *testing.T) {
	for _, c := range []attentionCase{
		{kernels.Heads{Q: 2, KV: 2, Dim: 64}, 16, 0, false, 1, nil},
		{kernels.Heads{Q: 14, KV: 2, Dim: 64}, 64, 0, false, 2, nil},
		{kernels.Heads{Q: 8, KV: 1, Dim: 128}, 32, 0, true, 1, nil},
		{kernels.Heads{Q: 4, KV: 4, Dim: 80}, 32, 300, false, 1, nil},
		{kernels.Heads{Q: 4, KV: 2, Dim: 256}, 64, 0, false, 1, nil},
	} {
		t.Run(c.String(), func(t *testing.T) {
			r := newAttentionRun(newFixture(t, s.open(t)), c)
			whole := r.drawSequence(1100)
			r.runAttention(false, part{whole, 0, whole.tokens})
			var parts []part
			var want []float64
			for i, shared := range []int{1024, 1024, 1056, 1024, 1024, 512, 512, 64, 1024, 1024, 1024} {
				rows := []int{1, 3, 30, 7, 2, 60, 1}[i%7]
				shared -= shared % c.blockTokens // whole blocks
				seq := r.drawSequence(shared + rows)
				copy(seq.qkv, whole.qkv[:shared*c.heads.QKVCols()])
				copy(seq.blocks, whole.blocks[:shared/c.blockTokens])
				if i%4 == 3 { // the block before the last shared one is its own
					at := shared/c.blockTokens - 1
					seq.blocks[at] = r.newBlocks(1)[0]
					r.CopyKV(seq.blocks[at], whole.blocks[at], r.KVBlockBytes(c.heads, c.blockTokens))
				}
				p := part{seq, shared, seq.tokens}
				_, alone := r.runAttention(true, p)
				parts, want = append(parts, p), append(want, r.Values(alone)...)
			}
			_, together := r.runAttention(true, parts...)
			checkValues(r.T, "attention of ends that share a prefix", Tolerance{}, r.Values(together), want)
			poisoned := parts[4]
			for i := range poisoned.qkv[poisoned.from*c.heads.QKVCols():] {
				poisoned.qkv[poisoned.from*c.heads.QKVCols()+i] = math.NaN()
			}
			_, together = r.runAttention(true, parts...)
			got, row := r.Values(together), c.heads.Q*c.heads.Dim
			first := 0
			for _, p := range parts[:4] {
				first += p.to - p.from
			}
			end := first + poisoned.to - poisoned.from
			checkValues(r.T, "attention beside an end that is not a number", Tolerance{}, slices.Delete(got, first*row, end*row), slices.Delete(want, first*row, end*row))
		})
	}
}
