package completion

import (
	"errors"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// guided is an answer that must have a form, on its way. Its job is open: it generates a token that the form leaves open,
// and is told what follows that and what the next one may be.
type guided struct {
	form   grammar.Constraint
	ask    engine.Ask       // of an answer that may be anything
	stop   []engine.TokenID // tokens that end the answer
	eos    []engine.TokenID // those of stop that also end it where the form does not go on
	ids    []engine.TokenID // the prompt, and what was generated
	prompt int              // of ids
	most   int              // to be generated
	vocab  int              // of the model
	said   int              // of the generated tokens, those that Results have told
	forced []engine.TokenID // at the end of ids: not told yet
	open   engine.TokenSet  // what the next token may be
	final  bool             // the next token is the last one
	done   bool             // the form ends behind ids or, if final, behind the next token
}

// begin finds what the answer begins with, and leaves one token at least to ask for.
func (g *guided) begin() error {
	if err := g.advance(); err != nil {
		return err
	}
	n := min(len(g.forced), g.most)
	if n == 0 && g.done {
		return engine.Errorf(engine.CodeBadTokens, "the form of the answer is the empty text")
	}
	if !g.done && n < g.most {
		return nil
	}
	g.final, g.done = true, g.done && n == len(g.forced)
	g.open, g.forced = engine.NewTokenSet(g.forced[n-1]), g.forced[:n-1]
	g.ids = g.ids[:g.prompt+n-1]
	return nil
}

// advance takes tokens that the model has chosen, and what must follow them, until there is something to choose.
func (g *guided) advance(ids ...engine.TokenID) error {
	for {
		more, done, err := g.form.Advance(ids...)
		if err != nil {
			return g.tooComplex(err)
		}
		g.appendForced(more)
		if g.done = done; done || g.generated() >= g.most {
			return nil
		}
		if err := g.findAllowed(); err != nil || g.done || g.open.Len() > 1 {
			return err
		}
		ids = g.open.IDs()
		g.appendForced(ids)
	}
}

func (g *guided) generated() int { return len(g.ids) - g.prompt }

func (g *guided) appendForced(ids []engine.TokenID) {
	g.ids, g.forced = append(g.ids, ids...), append(g.forced, ids...)
}

func (g *guided) tooComplex(err error) error {
	var busy *engine.Error
	if errors.As(err, &busy) {
		return busy
	}
	return engine.Errorf(engine.CodeBadTokens, "the form of the answer cannot be followed behind %d tokens: %v", g.generated(), err)
}

// findAllowed finds what the next token may be: where the form may end, also what ends an answer.
func (g *guided) findAllowed() error {
	open, end, err := g.form.Allowed()
	if err != nil {
		return g.tooComplex(err)
	}
	g.open = open.Below(g.vocab)
	g.done = g.open.Empty()
	if g.done && !end {
		return g.tooComplex(errors.New("no token of the model goes on with it"))
	}
	if end {
		g.open = g.open.With(g.eos...)
	}
	return nil
}

// nextWork is the work of the job that generates the next token, as whoever knows nothing of it has to be told.
func (g *guided) nextWork() *engine.Tokens {
	ask := g.ask
	ask.Allowed = g.open
	g.ask.PromptLogprobs, g.ask.PromptTop = false, 0 // the first token brings them
	return &engine.Tokens{IDs: slices.Clip(g.ids), Generated: g.generated(), Max: 1, Open: !g.final, Stop: g.stop, Ask: ask}
}

// takeResult makes of the job's Result those of all tokens that are known with it. Another is to follow unless the last of them
// ends the answer.
func (g *guided) takeResult(r *wire.Result) ([]*wire.Result, error) {
	answer := r.Output.(*engine.TokenOutput).Answer
	answers := append(g.forcedAnswers(), answer)
	g.ids = append(g.ids, answer.Token)
	if !g.final && !slices.Contains(g.stop, answer.Token) {
		if err := g.advance(answer.Token); err != nil {
			return nil, err
		}
		answers = append(answers, g.forcedAnswers()...)
	}
	return g.tell(r, answers), nil
}

// forcedAnswers are the answers of the forced tokens, which nothing else could have been.
func (g *guided) forcedAnswers() []*engine.Answer {
	answers := make([]*engine.Answer, 0, len(g.forced)+1)
	for _, id := range g.forced {
		a := &engine.Answer{Token: id}
		if g.ask.Top > 0 {
			a.Top = []engine.TokenLogprob{{ID: id}}
		}
		for _, label := range g.ask.Labels {
			entry := engine.TokenLogprob{ID: label}
			if label != id {
				entry.Logprob = float32(math.Inf(-1))
			}
			a.Labels = append(a.Labels, entry)
		}
		answers = append(answers, a)
	}
	g.forced = nil
	return answers
}

// tell makes the Results of answers, which r is the cause of.
func (g *guided) tell(r *wire.Result, answers []*engine.Answer) (results []*wire.Result) {
	from := r.Output.(*engine.TokenOutput)
	put := func(a *engine.Answer, finish engine.Finish) {
		told := *r
		out := &engine.TokenOutput{Index: g.said, Answer: a}
		if g.said == 0 {
			out.Prompt = from.Prompt[:min(len(from.Prompt), g.prompt-1)] // the rest is of forced tokens
			out.Cached = min(from.Cached, g.prompt)
		}
		told.Output, told.Finish = out, finish
		results = append(results, &told)
		g.said++
	}
	for i, a := range answers {
		switch ends := g.done && i == len(answers)-1; {
		case slices.Contains(g.stop, a.Token):
			put(a, engine.FinishStop)
			return results
		case g.said+1 == g.most && !ends:
			put(a, engine.FinishLength)
			return results
		}
		put(a, engine.FinishNone)
	}
	if g.done {
		put(nil, engine.FinishStop)
	}
	return results
}
