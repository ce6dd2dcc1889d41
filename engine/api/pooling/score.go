package pooling

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
)

// pairing is what bodies of pairs have in common.
type pairing struct {
	api.Templating
	Instruction string `json:"instruction"`
	PerQuery    int    `json:"max_tokens_per_query" default:"0" min:"0" says:"1 or more, or 0 for all"`
	PerDocument int    `json:"max_tokens_per_doc" default:"0" min:"0" says:"1 or more, or 0 for all"`
	Activation  *bool  `json:"use_activation"`
	OldName     *bool  `json:"activation"` // of use_activation
}

func (p *pairing) fillRequest(r *Request) {
	r.Templating, r.Instruction, r.Fit.Query, r.Fit.Document = p.Templating, p.Instruction, p.PerQuery, p.PerDocument
	r.Activate = rawActivation(p.Activation, p.OldName)
}

// rawActivation is false where the first of these that is given is, and else nil: the checkpoint says.
func rawActivation(given ...*bool) *bool {
	for _, v := range given {
		if v != nil && !*v {
			return v
		}
		if v != nil {
			return nil
		}
	}
	return nil
}

// checkPairs checks that there is one query, or one for each document.
func (r *Request) checkPairs() *api.Error {
	if q, d := len(r.Queries), len(r.Documents); q != d && q != 1 {
		return api.Invalid(r.QueryField, "%s has %d elements and %s has %d; give one, or as many", r.QueryField, q, r.Field, d)
	}
	return nil
}

// pairForms are the keys in which vLLM takes pairs.
var pairForms = [][2]string{{"queries", "documents"}, {"queries", "items"}, {"data_1", "data_2"}, {"text_1", "text_2"}}

// scoreBody is vLLM's.
type scoreBody struct {
	common
	pairing
	Queries json.RawMessage `json:"queries" is:"Texts"`
	Docs    json.RawMessage `json:"documents" is:"Texts"`
	Items   json.RawMessage `json:"items" is:"Texts" about:"In place of documents."`
	Data1   json.RawMessage `json:"data_1" is:"Texts" about:"With data_2, in place of queries and documents."`
	Data2   json.RawMessage `json:"data_2" is:"Texts"`
	Text1   json.RawMessage `json:"text_1" is:"Texts" about:"With text_2, in place of queries and documents."`
	Text2   json.RawMessage `json:"text_2" is:"Texts"`
}

// decodeScore decodes the body of POST /score: vLLM's pairs of texts or, told by its query, SGLang's.
func decodeScore(body []byte) (*Request, *api.Error) {
	if asksLabels(body) {
		return decodeLabelScores(body)
	}
	var in scoreBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := in.newRequest(Score)
	in.fillRequest(r)
	given := map[string]json.RawMessage{"queries": in.Queries, "documents": in.Docs, "items": in.Items, "data_1": in.Data1, "data_2": in.Data2, "text_1": in.Text1, "text_2": in.Text2}
	for _, form := range pairForms {
		if given[form[0]] == nil || given[form[1]] == nil {
			continue
		}
		r.QueryField, r.Field = form[0], form[1]
		var err *api.Error
		if r.Queries, err = readTexts(r.QueryField, given[form[0]]); err != nil {
			return nil, err
		}
		if r.Documents, err = readTexts(r.Field, given[form[1]]); err != nil {
			return nil, err
		}
		r.answer = answerScores
		return r, r.checkPairs()
	}
	return nil, newEmptyError("queries", "the pairs are missing; give queries and documents, queries and items, data_1 and data_2, text_1 and text_2 or, for the probabilities of labels, query, items and label_token_ids")
}

func answerScores(b []byte, spill api.Spill, a *Answer) []byte {
	b = a.appendList(b, spill, "score-", a.scoreElement)
	return append(a.Usage.Append(b), '}')
}

func (a *Answer) scoreElement(b []byte, i int) []byte {
	b = appendScore(append(appendElement(b, i, "score"), `,"score":`...), a.Results[i].Scores[0])
	return append(b, '}')
}

// readTexts reads a text or a list of them, each a string or vLLM's {"content": [parts of text]} or Cohere's {"text"}.
func readTexts(field string, raw json.RawMessage) ([]string, *api.Error) {
	first := bytes.TrimLeft(raw, " \t\r\n")
	if len(first) > 0 && first[0] == '{' {
		text, err := readText(field, raw)
		return []string{text}, err
	}
	if !bytes.ContainsRune(raw, '{') || len(first) > 0 && first[0] == '"' {
		return readStrings(field, raw)
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, api.Invalid(field, "%s must be a text or a list of texts", field)
	}
	texts := make([]string, 0, len(list))
	for _, one := range list {
		text, err := readText(field, one)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, tooMany(field, len(texts))
}

// readText reads one text.
func readText(field string, raw json.RawMessage) (string, *api.Error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && !api.Neutral(raw, "") {
		return text, nil
	}
	var object struct {
		Text    *string `json:"text"`
		Content []struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(raw, &object) != nil || object.Text == nil && len(object.Content) == 0 {
		return "", api.Invalid(field, "an element of %s is neither a string nor an object with text, or with content of parts of text", field)
	}
	if object.Text != nil {
		return *object.Text, nil
	}
	var parts []string
	for _, part := range object.Content {
		if part.Text == nil {
			return "", api.Invalid(field, "a content of %s has a part of type %.40q; only text parts are served", field, part.Type)
		}
		parts = append(parts, *part.Text)
	}
	return strings.Join(parts, "\n"), nil
}

// ranking is the part of a rerank's body that the forms of it share.
type ranking struct {
	common
	pairing
	Query           json.RawMessage `json:"query" is:"TextForm" required:"true"`
	Documents       json.RawMessage `json:"documents" is:"Texts" required:"true"`
	TopN            *int            `json:"top_n" default:"0" min:"0" says:"1 or more, or 0 for all documents"`
	ReturnDocuments *bool           `json:"return_documents" about:"Default true; false at /v2/rerank."`
	Instruct        string          `json:"instruct"`                         // SGLang's
	RawScores       *bool           `json:"raw_scores" default:"false"`       // Infinity's
	RankFields      json.RawMessage `json:"rank_fields" only:"[]|[\"text\"]"` // Cohere's
	PerDocChunks    json.RawMessage `json:"max_chunks_per_doc" only:"1"`
}

// decodeRanking decodes a body and returns how many documents are to be answered.
func decodeRanking(body []byte) (*Request, *ranking, *api.Error) {
	var in ranking
	if err := api.Decode(body, &in); err != nil {
		return nil, nil, err
	}
	r := in.newRequest(Score)
	in.fillRequest(r)
	if r.Instruction == "" {
		r.Instruction = in.Instruct
	}
	if in.RawScores != nil && *in.RawScores {
		r.Activate = new(bool)
	}
	r.QueryField, r.Field = "query", "documents"
	if in.Query == nil {
		return nil, nil, newEmptyError("query", "query is missing; give a string")
	}
	query, err := readText(r.QueryField, in.Query)
	if err != nil {
		return nil, nil, err
	}
	r.Queries = []string{query}
	if r.Documents, err = readTexts(r.Field, in.Documents); err != nil {
		return nil, nil, err
	}
	if in.TopN == nil {
		in.TopN = new(int)
	}
	return r, &in, nil
}

// decodeRerank decodes the body of POST /rerank in Jina's form, which vLLM's, Infinity's and the first version of Cohere's are, too.
func decodeRerank(body []byte) (*Request, *api.Error) {
	r, in, err := decodeRanking(body)
	if err != nil {
		return nil, err
	}
	withText := in.ReturnDocuments == nil || *in.ReturnDocuments
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = api.AppendString(append(b, `{"id":`...), "rerank-"+a.ID)
		b = strconv.AppendInt(append(b, `,"object":"rerank","created":`...), a.Created, 10)
		b = api.AppendString(append(b, `,"model":`...), a.Model)
		b = a.appendRanked(append(b, `,"results":`...), spill, *in.TopN, withText)
		return append(a.Usage.Append(b), '}')
	}
	return r, nil
}

// decodeCohereRerank decodes the body of POST /v2/rerank, the second version of Cohere's.
func decodeCohereRerank(body []byte) (*Request, *api.Error) {
	r, in, err := decodeRanking(body)
	if err != nil {
		return nil, err
	}
	withText := in.ReturnDocuments != nil && *in.ReturnDocuments
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = api.AppendString(append(b, `{"id":`...), "rerank-"+a.ID)
		b = a.appendRanked(append(b, `,"results":`...), spill, *in.TopN, withText)
		b = append(b, `,"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},"tokens":{"input_tokens":`...)
		b = strconv.AppendInt(b, int64(a.Usage.PromptTokens), 10)
		return append(b, "}}}"...)
	}
	return r, nil
}

// resultOrder are the indices of the results, the best first, at most n where n is not 0.
func (a *Answer) resultOrder(n int) []int {
	best := make([]int, len(a.Results))
	for i := range best {
		best[i] = i
	}
	slices.SortStableFunc(best, func(i, j int) int { return cmp.Compare(a.Results[j].Scores[0], a.Results[i].Scores[0]) })
	if n > 0 && n < len(best) {
		return best[:n]
	}
	return best
}

// appendRanked appends the documents, the best first.
func (a *Answer) appendRanked(b []byte, spill api.Spill, n int, withText bool) []byte {
	best := a.resultOrder(n)
	return api.AppendElements(b, len(best), spill, func(b []byte, k int) []byte {
		i := best[k]
		b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
		if withText {
			b = api.AppendString(append(b, `,"document":{"text":`...), a.request.Documents[i])
			b = append(b, '}')
		}
		b = appendScore(append(b, `,"relevance_score":`...), a.Results[i].Scores[0])
		return append(b, '}')
	})
}

type rankingBody struct {
	common
	Query    json.RawMessage `json:"query" is:"Texts" required:"true"`
	Passages json.RawMessage `json:"passages" is:"Texts" required:"true"`
	Truncate string          `json:"truncate" enum:"NONE,END"`
}

// decodeNIMRanking decodes the body of POST /v1/ranking, NVIDIA NIM's, whose scores are logits.
func decodeNIMRanking(body []byte) (*Request, *api.Error) {
	var in rankingBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := in.newRequest(Score)
	r.QueryField, r.Field, r.Activate = "query", "passages", new(bool)
	if in.Truncate == "END" {
		r.Fit.Most = -1
	}
	var err *api.Error
	if r.Queries, err = readTexts(r.QueryField, in.Query); err != nil {
		return nil, err
	}
	if r.Documents, err = readTexts(r.Field, in.Passages); err != nil {
		return nil, err
	}
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		best := a.resultOrder(0)
		b = api.AppendElements(append(b, `{"rankings":`...), len(best), spill, func(b []byte, k int) []byte {
			b = strconv.AppendInt(append(b, `{"index":`...), int64(best[k]), 10)
			b = appendScore(append(b, `,"logit":`...), a.Results[best[k]].Scores[0])
			return append(b, '}')
		})
		return append(a.Usage.Append(b), '}')
	}
	return r, r.checkPairs()
}
