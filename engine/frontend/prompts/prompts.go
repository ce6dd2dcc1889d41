// Package prompts serves the endpoints that take text or tokens: completions and chats, decisions, embeddings and scores, and what
// the tokens of a text are.
package prompts

import (
	"net/http"
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/api/fields"
	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/decision"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/frontend/route"
	"github.com/prefillonly/prefillonly/engine/metrics"
	"github.com/prefillonly/prefillonly/engine/scoring"
)

// Endpoints are those of text. Their methods are safe for concurrent use.
type Endpoints struct {
	version     string
	models      *registry.Registry
	pool        *client.Client
	metrics     *metrics.Metrics
	completions *completion.Service
	scoring     *scoring.Service
	decisions   *decision.Service
}

// New makes the endpoints of a server of some version.
func New(cfg completion.Config, version string, models *registry.Registry, pool *client.Client, counted *metrics.Metrics) *Endpoints {
	return &Endpoints{
		version: version, models: models, pool: pool, metrics: counted,
		completions: completion.New(cfg, pool), scoring: scoring.New(pool), decisions: decision.New(pool),
	}
}

// Routes are the paths of the endpoints.
func (e *Endpoints) Routes() []route.Route {
	tokenize := route.Tell("The tokens of a text or a conversation, in vLLM's form; of texts in TEI's", route.OfRuns,
		route.InJSON(fields.AnyOf(fields.Answer(reflect.TypeFor[completions.Tokenized]()), pooling.TokensAnswer)), completions.TokenizeBody, pooling.TextsBody)
	tokenize.Forms = []pooling.Dialect{pooling.OpenAI, pooling.TEI}
	info := []int{400, 404, 500, 503}
	routes := []route.Route{
		route.Post("/v1/completions", e.answerCompletion, route.Tell("Tokens that follow prompts", route.OfRuns, route.Answers[completions.Completion](), completions.CompletionBody).Streamed("a completion")),
		route.Post("/v1/completions/render", e.renderCompletions, route.Tell("The tokens of prompts; nothing is run", route.OfRuns, route.Answers[[]completions.Rendered](), completions.CompletionBody)),
		route.Post("/v1/chat/completions", e.answerChat, route.Tell("The next message of a conversation", route.OfRuns, route.Answers[completions.Chat](), completions.ChatBody).Streamed("a chat.completion.chunk")),
		route.Post("/v1/chat/completions/render", e.renderChat, route.Tell("The tokens of a conversation; nothing is run", route.OfRuns, route.Answers[completions.Rendered](), completions.ChatBody)),
		route.Post("/v1/decisions", e.answerDecision(decisions.Decode), route.Tell("How likely each of a few answers is, of questions about one input", route.OfRuns, route.Object(), decisions.Body)),
		route.Post("/v1/systemone", e.answerDecision(decisions.DecodeSystemOne), route.Tell("The same in System One's form", route.OfRuns, route.Object(), decisions.SystemOneBody)),
		route.Post("/tokenize", e.tokenize, tokenize),
		route.Post("/detokenize", e.detokenize, route.Tell("The text of tokens, in vLLM's form", route.OfRuns, route.Answers[completions.Detokenized](), completions.DetokenizeBody)),
		route.Post("/decode", e.decodeIDs, route.Tell("The texts of tokens, in TEI's form", route.OfRuns, route.Answers[[]string](), pooling.IDsBody)),
		route.Post("/embed_sparse", e.embedSparse, route.Tell("TEI's error of a model without sparse vectors, as none is served that has them", route.OfRuns, route.InJSON(openapi.Schema{}), pooling.TextsBody)),
		route.Get("/info", e.info, route.Tell("What a model is for, in TEI's form", info, route.Answers[teiInfo]()).With("model")),
		route.Get("/tokenizer_info", e.tokenizerInfo, route.Tell("The configuration of a model's tokenizer, in vLLM's form", info, route.Object()).With("model")),
	}
	for _, scored := range pooling.Endpoints() {
		told := route.Tell(scored.About, route.OfRuns, route.InJSON(scored.Answer), scored.Bodies...)
		told.Forms = scored.Forms
		routes = append(routes, route.Post(scored.Path, e.answerScoring(scored), told))
	}
	return routes
}

// asker is what a body says of the model that it asks, and of who asks.
type asker struct{ model, user, salt, requestID string }

// origin finds the model that a request names, and notes what its header says.
func (e *Endpoints) origin(x *exchange.Exchange, r *http.Request, a asker) (m *registry.Model, text *registry.Text, from completion.Origin, refused *exchange.Refusal) {
	m, refused = e.models.Find(x, a.model)
	if refused != nil {
		return nil, nil, from, refused
	}
	x.Rename(r, a.requestID)
	deadline, refused := exchange.Deadline(r.Header)
	if refused != nil {
		return nil, nil, from, refused
	}
	text, refused = e.models.Text(r.Context(), x, m)
	return m, text, completion.Origin{
		ID: x.ID, Arrived: x.Start, Model: m.Name, User: x.User(r.Header, a.user), Holder: x.Holder(), Salt: x.Owner.Salt(a.salt), Deadline: deadline,
		Between: e.metrics.Of(m.Name).Between,
	}, refused
}
