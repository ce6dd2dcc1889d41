package frontend

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strconv"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/scoring"
)

// textsTokens are the tokens of texts, as TEI's /tokenize answers them.
func (e *promptEndpoints) textsTokens(ctx context.Context, x *exchange.Exchange, request *pooling.TextsRequest) (*[][]pooling.Token, *exchange.Refusal) {
	m, text, refused := e.models.Reader(ctx, x, request.Model)
	if refused != nil {
		return nil, refused
	}
	prefix := ""
	if m.Checkpoint != nil {
		var err error
		if prefix, err = scoring.PromptOf(m.Checkpoint, m.Name, request.Prompt); err != nil {
			return nil, exchange.RefusalOf(ctx, err)
		}
	}
	all := make([][]pooling.Token, len(request.Texts))
	for i, one := range request.Texts {
		ids, err := text.Tokens(ctx, x.Owner.Salt(""), "inputs", prefix+one, false)
		if err != nil {
			return nil, exchange.RefusalOf(ctx, err)
		}
		var before, after []engine.TokenID
		if request.AddSpecial {
			before, after = text.Specials.Around()
		}
		tokens := make([]pooling.Token, 0, len(before)+len(ids)+len(after))
		for at, id := range slices.Concat(before, ids, after) {
			special := at < len(before) || at >= len(before)+len(ids)
			tokens = append(tokens, pooling.Token{ID: id, Text: string(text.TokenBytes(id)), Special: special})
		}
		pooling.Place(tokens, prefix+one)
		all[i] = tokens
	}
	return &all, nil
}

// decodeIDs answers TEI's /decode: the texts of token ids.
func (e *promptEndpoints) decodeIDs(x *exchange.Exchange, r *http.Request) {
	texts, refused := exchange.Prepare(x, r, pooling.DecodeIDs, func(request *pooling.IDsRequest) (*[]string, *exchange.Refusal) {
		return e.decoded(r.Context(), x, request)
	})
	if refused != nil {
		x.Refuse(refused)
		return
	}
	x.WriteJSON(http.StatusOK, texts)
}

func (e *promptEndpoints) decoded(ctx context.Context, x *exchange.Exchange, request *pooling.IDsRequest) (*[]string, *exchange.Refusal) {
	_, text, refused := e.models.Reader(ctx, x, request.Model)
	if refused != nil {
		return nil, refused
	}
	texts, vocab := make([]string, len(request.IDs)), text.VocabSize()
	for i, ids := range request.IDs {
		for _, id := range ids {
			if int(id) >= vocab {
				return nil, exchange.Invalid(api.Invalid("ids", "ids has token id %d; the vocabulary has %d tokens (0 to %d)", id, vocab, vocab-1))
			}
		}
		var err error
		if texts[i], err = text.Untokenize("ids", ids, request.SkipSpecial); err != nil {
			return nil, exchange.RefusalOf(ctx, err)
		}
	}
	return &texts, nil
}

// info answers TEI's /info, of the model that the query names.
func (e *promptEndpoints) info(x *exchange.Exchange, r *http.Request) {
	m, refused := e.models.Find(x, r.URL.Query().Get("model"))
	if refused != nil {
		x.Refuse(refused)
		return
	}
	if m.Checkpoint == nil {
		x.Refuse(exchange.Invalid(api.Invalid("model", "it is not known what the model `%s` is for; /v1/models tells of it", m.Name)))
		return
	}
	length := 0
	if served := e.pool.State().Models[m.Name]; served != nil && served.Tokens != nil {
		length = m.Checkpoint.Longest(served.Tokens.MaxModelLen)
	}
	x.WriteJSON(http.StatusOK, teiInfo{
		Model: m.Name, DType: "bfloat16", Type: teiType(m.Checkpoint), MaxRequests: e.pool.Config().MaxJobs, MaxInput: length, MaxBatchTokens: length,
		MaxTexts: pooling.MaxInputs, Workers: runtime.GOMAXPROCS(0), Version: e.version,
	})
}

// teiInfo is TEI's body of /info. What this server has no figure for is null.
type teiInfo struct {
	Model          string         `json:"model_id"`
	SHA            *string        `json:"model_sha"`
	DType          string         `json:"model_dtype"`
	Type           map[string]any `json:"model_type"`
	MaxRequests    int            `json:"max_concurrent_requests"`
	MaxInput       int            `json:"max_input_length"`
	MaxBatchTokens int            `json:"max_batch_tokens"` // of one prompt: a pass takes what its step has time for
	MaxBatch       *int           `json:"max_batch_requests"`
	MaxTexts       int            `json:"max_client_batch_size"`
	Truncates      bool           `json:"auto_truncate"`
	Workers        int            `json:"tokenization_workers"`
	Version        string         `json:"version"`
	Commit         *string        `json:"sha"`
	Image          *string        `json:"docker_label"`
}

// teiPools are TEI's words for poolings; others are sentence-transformers'.
var teiPools = map[engine.Pool]string{
	engine.PoolFirst: "cls", engine.PoolMean: "mean", engine.PoolLast: "last_token", engine.PoolMax: "max", engine.PoolRoot: "mean_sqrt_len_tokens", engine.PoolWeighted: "weightedmean",
}

// teiType is what a model is for, as TEI says it.
func teiType(m *checkpoint.Model) map[string]any {
	if m.Kind == checkpoint.Embedder || m.Kind == checkpoint.Generator {
		return map[string]any{"embedding": map[string]string{"pooling": teiPools[m.Pool]}}
	}
	names, numbers := map[string]string{}, map[string]int{}
	for i, label := range m.Labels {
		names[strconv.Itoa(i)], numbers[label] = label, i
	}
	kind := "classifier"
	if slices.Contains(scoring.Capabilities(m), "rerank") {
		kind = "reranker"
	}
	return map[string]any{kind: map[string]any{"id2label": names, "label2id": numbers}}
}
