package model

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/sampling"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// question is what is wanted of one asked row.
type question struct {
	it     *item
	row    int              // counted through the pass's chunks
	prompt int              // the prompt position that the row predicts, or 0 for the answer
	ids    []engine.TokenID // columns of the logits, sorted; nil for the whole vocabulary
}

// listQuestions lists those of an item, in the order of their rows.
func (it *item) listQuestions(vocab int) []question {
	all := make([]question, 0, it.rows-it.asked)
	for at := it.asked; at < it.rows; at++ {
		q := question{it: it, row: it.row + at}
		if at == it.rows-1 {
			q.ids = columnsOf(it.Ask.Allowed, vocab)
		} else {
			q.prompt = it.Cached + at + 1
		}
		all = append(all, q)
	}
	return all
}

// isRowAfter says that the question's row comes behind the other's in the same item.
func (q question) isRowAfter(other question) bool { return q.it == other.it && q.row == other.row+1 }

// gathered is the share of a vocabulary, in percent, up to which the LM head computes the allowed tokens alone. Beyond it
// little is saved, and rows of any asks go through the whole head together.
const gathered = 80

// columnsOf are the columns of logits that are computed for a set; nil for all.
func columnsOf(allowed engine.TokenSet, vocab int) []engine.TokenID {
	if allowed.Empty() || allowed.Bits() != nil && allowed.Len()*100 > vocab*gathered {
		return nil
	}
	return allowed.IDs()
}

// isSameKind says that both questions are answered in the same way.
func (q question) isSameKind(other question) bool {
	return q.isPooled() == other.isPooled() && slices.Equal(q.ids, other.ids)
}

// answerAlike answers questions that are alike.
func (p *Pass) answerAlike(x kernels.Mat, all []question) error {
	if all[0].isPooled() {
		return p.poolRows(x, all)
	}
	return p.answerLogits(x, all)
}

// answerLogits answers questions of equal columns. Rows of logits leave the device one by one, as many at a
// time as there are processors to normalise them.
func (p *Pass) answerLogits(x kernels.Mat, all []question) error {
	m, ids := p.m, all[0].ids
	out := viewColumns(m.work.logits.Slice(0, len(all)), 0, m.spec.Vocab)
	if ids != nil {
		out.Cols = len(ids)
	}
	m.backend.Logits(out, x, m.norm, m.head, ids)
	if err := m.backend.Sync(); err != nil {
		return err
	}
	for len(all) > 0 {
		n := min(len(all), len(m.work.rowsOnHost))
		replies := make([]reply, n)
		for i := range n {
			m.backend.Read(bytesOf(m.work.rowsOnHost[i][:out.Cols]), out.Buf, out.Off)
			out.Off += 4 * int64(out.Stride)
		}
		var wg sync.WaitGroup
		for i, q := range all[:n] {
			wg.Go(func() { // ends with its row
				logits := m.work.rowsOnHost[i][:out.Cols]
				m.spec.ScaleLogits(logits)
				replies[i] = q.replyFromLogits(logits)
			})
		}
		wg.Wait()
		for i, q := range all[:n] {
			replies[i].addTo(&p.results[q.it.index])
		}
		all = all[n:]
	}
	return nil
}

// bytesOf is the memory of v; the hosts of all backends are little-endian, as the backends are.
func bytesOf(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}

// reply is one row's part of an item's result.
type reply struct {
	answer *engine.Answer
	score  engine.PromptScore // if answer is nil
	err    *engine.Error
}

func (q question) replyFromLogits(logits []float32) reply {
	if q.prompt == 0 {
		answer, err := sampling.SampleToken(logits, q.ids, &q.it.Ask, q.it.Draw, q.it.Generated())
		return reply{answer: answer, err: err}
	}
	score, err := sampling.Score(logits, q.it.At(q.prompt, q.prompt+1)[0], q.it.Ask.PromptTop)
	return reply{score: score, err: err}
}

// addTo completes the item's result. Replies come in the order of the prompt's positions, and the
// first error stands for all.
func (r reply) addTo(res *wire.ItemResult) {
	if res.Err != nil {
		return
	}
	out := res.Output.(*engine.TokenOutput)
	switch {
	case r.err != nil:
		*res = wire.ItemResult{Job: res.Job, Err: r.err}
	case r.answer != nil:
		out.Answer = r.answer
	default:
		out.Prompt = append(out.Prompt, r.score)
	}
}
