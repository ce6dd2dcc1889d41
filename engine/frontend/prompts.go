package frontend

import (
	"reflect"
	"time"

	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/api/fields"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/metrics"
	"github.com/prefillonly/prefillonly/engine/scoring"
)

// promptEndpoints take text or tokens: completions and chats, decisions, embeddings and scores, and what the tokens of a text are. Their methods are safe for concurrent use.
type promptEndpoints struct {
	version     string
	models      *registry.Registry
	pool        *client.Client
	completions *completion.Service
	scoring     *scoring.Service
}

// newPromptEndpoints makes the endpoints of a server of some version.
func newPromptEndpoints(cfg completion.Config, version string, models *registry.Registry, pool *client.Client, counted *metrics.Metrics) *promptEndpoints {
	cfg.Between = func(model string) func(time.Duration) { return counted.Of(model).Between }
	return &promptEndpoints{version: version, models: models, pool: pool, completions: completion.New(cfg), scoring: scoring.New()}
}

// routes are the paths of the endpoints.
func (e *promptEndpoints) routes() []route {
	tokenize := describeOperation("The tokens of a text or a conversation, in vLLM's form; of texts in TEI's", ofRuns,
		inJSON(fields.AnyOf(fields.Answer(reflect.TypeFor[completions.Tokenized]()), pooling.TokensAnswer)), completions.TokenizeBody, pooling.TextsBody)
	tokenize.Forms = []pooling.Dialect{pooling.OpenAI, pooling.TEI}
	info := []int{400, 404, 500, 503}
	routes := []route{
		postRoute("/v1/completions", e.answerCompletion, describeOperation("Tokens that follow prompts", ofRuns, answerOf[completions.Completion](), completions.CompletionBody).Streamed("a completion")),
		postRoute("/v1/completions/render", e.renderCompletions, describeOperation("The tokens of prompts; nothing is run", ofRuns, answerOf[[]completions.Rendered](), completions.CompletionBody)),
		postRoute("/v1/chat/completions", e.answerChat, describeOperation("The next message of a conversation", ofRuns, answerOf[completions.Chat](), completions.ChatBody).Streamed("a chat.completion.chunk")),
		postRoute("/v1/chat/completions/render", e.renderChat, describeOperation("The tokens of a conversation; nothing is run", ofRuns, answerOf[completions.Rendered](), completions.ChatBody)),
		postRoute("/v1/decisions", e.answerDecision(decisions.Decode), describeOperation("How likely each of a few answers is, of questions about one input", ofRuns, jsonObject(), decisions.Body)),
		postRoute("/v1/systemone", e.answerDecision(decisions.DecodeSystemOne), describeOperation("The same in System One's form", ofRuns, jsonObject(), decisions.SystemOneBody)),
		postRoute("/tokenize", e.tokenize, tokenize),
		postRoute("/detokenize", e.detokenize, describeOperation("The text of tokens, in vLLM's form", ofRuns, answerOf[completions.Detokenized](), completions.DetokenizeBody)),
		postRoute("/decode", e.decodeIDs, describeOperation("The texts of tokens, in TEI's form", ofRuns, answerOf[[]string](), pooling.IDsBody)),
		getRoute("/info", e.info, describeOperation("What a model is for, in TEI's form", info, answerOf[teiInfo]()).With("model")),
		getRoute("/tokenizer_info", e.tokenizerInfo, describeOperation("The configuration of a model's tokenizer, in vLLM's form", info, jsonObject()).With("model")),
	}
	for _, scored := range pooling.Endpoints() {
		told := describeOperation(scored.About, ofRuns, inJSON(scored.Answer), scored.Bodies...)
		told.Forms = scored.Forms
		routes = append(routes, postRoute(scored.Path, e.answerScoring(scored), told))
	}
	return routes
}
