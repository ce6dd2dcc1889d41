// Package scoring answers requests for embeddings, scores, rankings and classes: it makes jobs of the pool of a decoded request,
// by what the model's checkpoint is for, and of their vectors, logits and probabilities the answer. It knows no HTTP.
package scoring

import (
	"context"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Bounds on the numbers of vectors that one request may ask for, and that open requests may hold.
const (
	maxNumbers     = 1 << 26
	budgetRequests = 4
	numberBytes    = 4
	maxTokens      = 1 << 25 // of all prompts of a request: of a ranking each has the query
)

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct {
	processors *processors.Pool // set once
	numbers    *budget.Budget
	most       int // tokens of a request's prompts; set once
}

// New makes a Service.
func New() *Service {
	return &Service{numbers: budget.New(budgetRequests * maxNumbers), processors: processors.Shared(), most: maxTokens}
}

// Subject is the model that a request asks.
type Subject struct {
	Text *text.Text
	*checkpoint.Model
}

// Call tokenizes what a request brings. Its errors, as those of Call's methods, are those of request.Call.
func (s *Service) Call(ctx context.Context, subject *Subject, from *request.Call, body *pooling.Request) (*Call, error) {
	from.Record.Tokens = &request.Tokens{N: 1}
	c := &Call{Call: from, Request: body, s: s, subject: subject, salt: from.Owner.Salt(body.Salt), known: map[string][]engine.TokenID{}}
	if c.Task == pooling.ByModel {
		c.Task = usualTask(subject.Model)
	}
	if err := c.checkTask(); err != nil {
		return nil, err
	}
	if err := c.preparePrompts(ctx); err != nil {
		return nil, err
	}
	c.known = nil
	return c, nil
}

// usualTask is what a model is for.
func usualTask(m *checkpoint.Model) pooling.Task {
	switch {
	case m.Kind == checkpoint.Generator || m.Kind == checkpoint.Embedder:
		return pooling.Embed
	case m.PerToken:
		return pooling.ClassifyToken
	}
	return pooling.Classify
}

// What a model can be asked for, in the order in which it is told.
const (
	completions = "completions"
	embeddings  = "embeddings"
	classes     = "classify"
	scores      = "score"
	ranking     = "rerank"
	vectors     = "pooling"
	labels      = "generative_scoring"
)

// Capabilities are what a model can be asked for.
func Capabilities(m *checkpoint.Model) []string {
	switch m.Kind {
	case checkpoint.Generator:
		return []string{completions, embeddings, vectors, labels}
	case checkpoint.Embedder:
		return []string{embeddings, vectors, scores, ranking}
	case checkpoint.Reranker:
		return []string{completions, scores, ranking, labels}
	}
	switch {
	case m.PerToken:
		return []string{vectors}
	case len(m.Labels) == 1 && m.Kind == checkpoint.Classifier:
		return []string{classes, vectors, scores, ranking}
	}
	return []string{classes, vectors}
}

// checkTask refuses what the model is not for, and says what it is for.
func (c *Call) checkTask() error {
	m, need := c.subject.Model, ""
	switch c.Task {
	case pooling.Embed, pooling.EmbedTokens:
		need = embeddings
	case pooling.Classify:
		need = classes
	case pooling.ClassifyToken:
		if headed := m.Kind == checkpoint.Classifier || m.Kind == checkpoint.Reward; headed && (m.PerToken || m.Pool == engine.PoolLast) {
			return nil
		}
		need = "token_classify" // an encoder's head reads what is pooled
	case pooling.Score:
		need = scores
	case pooling.Similarity:
		if need = scores; m.Kind != checkpoint.Embedder {
			need = "the similarity of embeddings"
		}
	case pooling.Labels:
		need = labels
	}
	if slices.Contains(Capabilities(m), need) {
		return nil
	}
	return Unable(m, c.Named, need)
}

// Unable refuses to ask the model of this name for what it is not for.
func Unable(m *checkpoint.Model, name, need string) *api.Error {
	e := api.Invalid("model", "the model `%s` is %s: it does not answer %s, but %s", name, describeModel(m), need, joinNames(Capabilities(m)))
	e.Code = "unsupported_task"
	return e
}

// describeModel is a model as errors call it.
func describeModel(m *checkpoint.Model) string {
	switch m.Kind {
	case checkpoint.Classifier:
		return fmt.Sprintf("a classifier of %d classes", len(m.Labels))
	case checkpoint.Embedder:
		return "an embedder"
	}
	return "a " + m.Kind.String()
}

func joinNames(names []string) string {
	text := names[0]
	for i, name := range names[1:] {
		if i == len(names)-2 {
			text += " and " + name
		} else {
			text += ", " + name
		}
	}
	return text
}
