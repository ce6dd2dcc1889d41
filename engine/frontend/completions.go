package frontend

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/scoring"
	"github.com/prefillonly/prefillonly/internal/requestid"
)

func (f *Frontend) answerCompletion(x *exchange, r *http.Request) {
	c, refused := f.prepareCompletion(x, r)
	f.answer(x, r, c, refused)
}

func (f *Frontend) answerChat(x *exchange, r *http.Request) {
	c, refused := f.prepareChat(x, r)
	f.answer(x, r, c, refused)
}

// prepareCompletion decodes a completion request and tokenizes its prompts.
func (f *Frontend) prepareCompletion(x *exchange, r *http.Request) (*completion.Call, *refusal) {
	return prepare(f, x, r, completions.DecodeCompletion, func(request *completions.CompletionRequest) (*completion.Call, *refusal) {
		text, from, refused := f.generator(x, r, &request.Params)
		if refused != nil {
			return nil, refused
		}
		c, err := f.completions.Completion(r.Context(), &text.Text, from, request)
		return c, f.orRefused(r, err)
	})
}

// prepareChat decodes a chat request, renders its template and tokenizes the result.
func (f *Frontend) prepareChat(x *exchange, r *http.Request) (*completion.Call, *refusal) {
	return prepare(f, x, r, completions.DecodeChat, func(request *completions.ChatRequest) (*completion.Call, *refusal) {
		text, from, refused := f.generator(x, r, &request.Params)
		if refused != nil {
			return nil, refused
		}
		c, err := f.completions.Chat(r.Context(), &text.Text, from, request)
		return c, f.orRefused(r, err)
	})
}

// orRefused is the refusal of an error, or none.
func (f *Frontend) orRefused(r *http.Request, err error) *refusal {
	if err != nil {
		return refusalOf(r.Context(), err)
	}
	return nil
}

// asker is what a body says of the model that it asks, and of who asks.
type asker struct{ model, user, salt, requestID string }

func askerOf(p *completions.Params) asker { return asker{p.Model, p.User, p.CacheSalt, p.RequestID} }

// origin finds the model that a request names, and notes what its header says.
func (f *Frontend) origin(x *exchange, r *http.Request, a asker) (m *Model, text *Text, from completion.Origin, refused *refusal) {
	m, refused = f.model(x, a.model)
	if refused != nil {
		return nil, nil, from, refused
	}
	if a.requestID != "" && r.Header.Get("X-Request-Id") == "" {
		x.id = requestid.Of(a.requestID)
		x.Header().Set("X-Request-Id", x.id)
	}
	deadline, refused := deadlineOf(r.Header)
	if refused != nil {
		return nil, nil, from, refused
	}
	text, refused = f.text(r.Context(), x, m)
	return m, text, completion.Origin{
		ID: x.id, Arrived: x.start, Model: m.Name, User: user(r.Header, a.user), Salt: x.owner.Salt(a.salt), Deadline: deadline,
		Between: f.metrics.Of(m.Name).Between,
	}, refused
}

// generator is origin for requests that ask for tokens, which not all models give.
func (f *Frontend) generator(x *exchange, r *http.Request, p *completions.Params) (*Text, completion.Origin, *refusal) {
	m, text, from, refused := f.origin(x, r, askerOf(p))
	if refused != nil {
		return nil, from, refused
	}
	served := f.pool.State().Models[m.Name]
	if m.Checkpoint != nil && served != nil && served.Tokens != nil && served.Tokens.VectorsOnly {
		return nil, from, invalid(scoring.Unable(m.Checkpoint, m.Name, "completions"))
	}
	return text, from, nil
}

// answer runs a call and answers when all of it is done, or as it goes.
func (f *Frontend) answer(x *exchange, r *http.Request, c *completion.Call, refused *refusal) {
	if refused == nil {
		x.call, c.Record.Trace = ofCompletion{&c.Record}, x.times()
		refused = f.run(x, r, c)
		x.memory += c.Record.Memory
	}
	if refused != nil {
		f.refuse(x, refused)
	}
}

// run answers itself unless it returns a refusal.
func (f *Frontend) run(x *exchange, r *http.Request, c *completion.Call) *refusal {
	if err := c.Admit(r.Context()); err != nil {
		return refusalOf(r.Context(), err)
	}
	if err := c.Submit(); err != nil {
		return refusalOf(r.Context(), err)
	}
	defer c.Close()
	if c.Stream {
		return f.stream(x, r, c)
	}
	for !c.Done() {
		if _, err := c.Next(r.Context()); err != nil {
			return refusalOf(r.Context(), err)
		}
	}
	f.writePieces(x, c.Answer())
	return nil
}

// renderCompletions answers with the token ids of each prompt, for routers that hash them.
func (f *Frontend) renderCompletions(x *exchange, r *http.Request) {
	c, refused := f.prepareCompletion(x, r)
	if refused = f.admitOnly(x, r, c, refused); refused != nil {
		f.refuse(x, refused)
		return
	}
	f.writeJSON(x, http.StatusOK, c.Rendered())
}

func (f *Frontend) renderChat(x *exchange, r *http.Request) {
	c, refused := f.prepareChat(x, r)
	if refused = f.admitOnly(x, r, c, refused); refused != nil {
		f.refuse(x, refused)
		return
	}
	f.writeJSON(x, http.StatusOK, c.Rendered()[0])
}

// admitOnly does to c all that comes before its jobs are submitted.
func (f *Frontend) admitOnly(x *exchange, r *http.Request, c *completion.Call, refused *refusal) *refusal {
	if refused != nil {
		return refused
	}
	x.call = ofCompletion{&c.Record}
	return f.orRefused(r, c.Admit(r.Context()))
}

// user is the key of fairness and routing: a router's header goes before the body's field.
func user(h http.Header, named string) string {
	for _, name := range []string{"X-Llm-D-Inference-Fairness-Id", "X-Gateway-Inference-Fairness-Id", "X-User-Id"} {
		if id := h.Get(name); id != "" {
			return id[:min(len(id), completions.MaxSaltBytes)]
		}
	}
	return named
}

// deadlineOf reads the time to first token that a router promised.
func deadlineOf(h http.Header) (time.Duration, *refusal) {
	for _, name := range []string{"X-Llm-D-Slo-Ttft-Ms", "X-Slo-Ttft-Ms"} {
		text := h.Get(name)
		if text == "" {
			continue
		}
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil || !(ms > 0 && ms < 1e12) {
			return 0, invalid(api.Invalid(name, "header %s is %.40q; it must be a number of milliseconds above 0", name, text))
		}
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	return 0, nil
}
