package model

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kernels"
)

// question is what is wanted of one asked row.
type question struct {
	it     *item
	prompt int              // the prompt position that the row predicts, or 0 for the answer
	ids    []engine.TokenID // columns of the logits, sorted; nil for the whole vocabulary
}

// questions lists those of gathered rows, in order.
func (g *askedRows) questions() []question {
	all := make([]question, 0, g.count)
	for _, r := range g.runs {
		var allowed []engine.TokenID
		if len(r.it.Ask.Allowed) > 0 {
			allowed = slices.Compact(slices.Sorted(slices.Values(r.it.Ask.Allowed)))
		}
		for at := r.at; at < r.at+r.n; at++ {
			if at == r.it.rows-1 {
				all = append(all, question{it: r.it, ids: allowed})
			} else {
				all = append(all, question{it: r.it, prompt: at + 1})
			}
		}
	}
	return all
}

// logits takes the rows of x through the LM head, neighbours that want the same columns together,
// and answers their questions.
func (p *Pass) logits(x kernels.Mat, g *askedRows) error {
	all := g.questions()
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && to-from < p.m.work.logits.Rows && slices.Equal(all[to].ids, all[from].ids) {
			to++
		}
		if err := p.head(x.Slice(from, to), all[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

func (p *Pass) head(x kernels.Mat, all []question) error {
	m, ids := p.m, all[0].ids
	out := columns(m.work.logits.Slice(0, len(all)), 0, m.spec.vocab)
	if ids != nil {
		out.Cols = len(ids)
	}
	m.backend.Logits(out, x, m.norm, m.spec.eps, m.head, ids)
	if err := m.backend.Sync(); err != nil {
		return err
	}
	row, values := m.work.host[:4*out.Cols], make([]float32, out.Cols)
	for i, q := range all {
		m.backend.Read(row, out.Buf, out.Off+4*int64(i)*int64(out.Stride))
		for j := range values {
			values[j] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*j:]))
		}
		p.reply(q, values)
	}
	return nil
}

// reply writes one row's part of its item's result.
func (p *Pass) reply(q question, logits []float32) {
	res, ask := &p.results[q.it.index], &q.it.Ask
	if res.Err != nil {
		return
	}
	if q.prompt == 0 {
		answer, err := choose(logits, q.ids, ask, q.it.Draw)
		if err != nil {
			res.Prompt, res.Err = nil, err
			return
		}
		res.Answer = answer
		return
	}
	d, err := newDistribution(logits, nil)
	if err != nil {
		res.Prompt, res.Err = nil, err
		return
	}
	res.Prompt = append(res.Prompt, engine.PromptScore{
		Logprob: d.logprob(int(q.it.Tokens[q.prompt])),
		Top:     d.top(ask.PromptTop),
	})
}
