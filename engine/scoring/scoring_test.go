package scoring

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	pools "github.com/prefillonly/prefillonly/engine/pooling"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// The model of the tests: 4 numbers a vector, 3 labels, a context of 40 tokens.
const (
	hidden  = 4
	longest = 40
)

// world is a Service over a scheduler in memory that answers by what a prompt's tokens say.
type world struct {
	*Service
	t         *testing.T
	scheduler *clienttest.Scheduler
	subject   *Subject
	pool      *client.Client
}

func newWorld(t *testing.T, m checkpoint.Model) *world {
	labels := max(1, len(m.Labels))
	s := clienttest.NewScheduler(func(s *wire.Submit) []*wire.Result { return []*wire.Result{reply(s, labels)} })
	pool := client.New(client.Config{}, s, zap.NewNop())
	s.Deliver = pool.Deliver
	w := clienttest.Welcome(1, 300)
	limits := w.Served[1].Tokens
	limits.Hidden, limits.Labels, limits.MaxModelLen = hidden, labels, longest
	pool.Deliver(w)
	tok := tokenizer.NewBytes()
	return &world{New(), t, s, &Subject{Text: &text.Text{Tokenizer: tok, Specials: tok}, Model: &m}, pool}
}

// templated is a tokenizer whose template makes pairs.
type templated struct{ text.Specials }

func (templated) Templated() bool { return true }

// reply is a vector that counts the letters a, b, c and d of a prompt; logits that count as many letters as there are labels;
// and of labels the logarithm of how often each is in the prompt, and once more.
func reply(s *wire.Submit, labels int) *wire.Result {
	work := s.Work.(*engine.Tokens)
	out := &engine.TokenOutput{Cached: 1}
	count := func(ids []engine.TokenID, id int) float32 {
		return float32(len(slices.DeleteFunc(slices.Clone(ids), func(x engine.TokenID) bool { return int(x) != id })))
	}
	width := hidden
	if work.Ask.Head {
		width = labels
	}
	parts := [][]engine.TokenID{work.IDs}
	if work.Ask.Pool == engine.PoolAll {
		parts = slices.Collect(slices.Chunk(work.IDs, 1))
	}
	for _, part := range parts {
		for i := range width {
			if work.Ask.Pool != engine.PoolNone {
				out.Vector = append(out.Vector, count(part, 'a'+i))
			}
		}
	}
	if work.Max > 0 {
		out.Answer = &engine.Answer{}
		for _, id := range work.Ask.Labels {
			out.Answer.Labels = append(out.Answer.Labels, engine.TokenLogprob{ID: id, Logprob: float32(math.Log(float64(1+count(work.IDs, int(id))) / 16))})
		}
	}
	return &wire.Result{Job: s.ID, Output: out, Finish: engine.FinishLength}
}

// decode decodes a body as the endpoint at path does.
func decode(t *testing.T, path, body string) (*pooling.Request, *api.Error) {
	t.Helper()
	for _, e := range pooling.Endpoints() {
		if e.Path == path {
			return e.Decode([]byte(body))
		}
	}
	t.Fatalf("no endpoint %s", path)
	return nil, nil
}

// ask asks at path, and returns the answer's JSON.
func (w *world) ask(path, body string) (string, error) {
	w.t.Helper()
	asked, refused := decode(w.t, path, body)
	if refused != nil {
		return "", refused
	}
	ctx := w.t.Context()
	c, err := w.Call(ctx, w.subject, request.New(w.pool, request.Origin{ID: "x", Arrived: time.Unix(7, 0), Model: "demo", Named: asked.Model}), asked)
	if err != nil {
		return "", err
	}
	if err := c.Admit(ctx); err != nil {
		return "", err
	}
	if err := c.Submit(); err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.Wait(ctx); err != nil {
		return "", err
	}
	answer := string(c.Answer().AppendJSON(nil, nil))
	if !json.Valid([]byte(answer)) {
		w.t.Errorf("no JSON: %s", answer)
	}
	return answer, nil
}

// prompts are those that were submitted, as text: special tokens as ^ and $, the second text of a pair behind a bar.
func (w *world) prompts() []string {
	var list []string
	submits, _ := w.scheduler.Seen()
	for _, s := range submits {
		if s.Request == 0 || s.Request > s.ID {
			w.t.Errorf("job %v is of request %v, want the first job of its own: their answer waits for all", s.ID, s.Request)
		}
		work := s.Work.(*engine.Tokens)
		text := ""
		for i, id := range work.IDs {
			if i == work.Ask.Second && i > 0 {
				text += "|"
			}
			switch id {
			case 256:
				text += "^"
			case 257:
				text += "$"
			default:
				text += string(rune(id))
			}
		}
		list = append(list, text)
	}
	return list
}

// check holds the answer to a request, or its error, and the prompts that were made of it.
func (w *world) check(path, body, want string, prompts ...string) {
	w.t.Helper()
	got, err := w.ask(path, body)
	if err != nil {
		got = err.Error()
	}
	if !strings.Contains(got, want) {
		w.t.Errorf("%s %s\ngot  %s\nwant %s", path, body, got, want)
	}
	if all := w.prompts(); len(prompts) > 0 && !slices.Equal(all[max(0, len(all)-len(prompts)):], prompts) {
		w.t.Errorf("%s %s\nprompts %q\nwant    %q", path, body, all, prompts)
	}
	if held := w.numbers.Held(); held != 0 {
		w.t.Errorf("%d numbers are still counted", held)
	}
}

func head(object string) string {
	return fmt.Sprintf(`{"id":"%s-x","object":"list","created":7,"model":"demo","data":[`, object)
}

func usage(tokens, cached int) string {
	return fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"total_tokens":%[1]d,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":%d}}}`, tokens, cached)
}

// TestEmbeddings: every form of input, with the checkpoint's prompt, normalisation and pooling, cut and encoded as asked.
func TestEmbeddings(t *testing.T) {
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean, Prompts: map[string]string{"query": "a: ", "document": ""}})
	const path = "/v1/embeddings"
	w.check(path, `{"input":"aabcccc"}`, head("embd")+`{"index":0,"object":"embedding","embedding":[2,1,4,0]}]`+usage(8, 1), "^aabcccc")
	if submits, _ := w.scheduler.Seen(); submits[0].Work.(*engine.Tokens).Ask.Pool != engine.PoolMean || submits[0].Work.(*engine.Tokens).Max != 0 {
		t.Errorf("asked %+v", submits[0].Work)
	}
	w.check(path, `{"input":["a","bb"],"prompt_name":"query"}`,
		head("embd")+`{"index":0,"object":"embedding","embedding":[2,0,0,0]},{"index":1,"object":"embedding","embedding":[1,2,0,0]}]`+usage(11, 2), "^a: a", "^a: bb")
	w.check(path, `{"input":[97,98]}`, head("embd")+`{"index":0,"object":"embedding","embedding":[1,1,0,0]}]`+usage(2, 1), "ab")
	w.check(path, `{"input":[[97],[99,99]],"normalize":true}`, head("embd")+`{"index":0,"object":"embedding","embedding":[1,0,0,0]},{"index":1,"object":"embedding","embedding":[0,0,1,0]}]`+usage(3, 2), "a", "cc")
	w.check(path, `{"input":"aaabbbbc","dimensions":2,"normalize":true,"add_special_tokens":false}`, head("embd")+`{"index":0,"object":"embedding","embedding":[0.6,0.8]}]`+usage(8, 1), "aaabbbbc")
	raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))
	raw = append(raw, make([]byte, 12)...)
	w.check(path, `{"input":"a","encoding_format":"base64"}`, head("embd")+`{"index":0,"object":"embedding","embedding":"`+base64.StdEncoding.EncodeToString(raw)+`"}]`+usage(2, 1))
	for body, want := range map[string]string{
		`{"input":"a","prompt_name":"x"}`:                         "has no prompt \"x\"; it has document and query",
		`{"input":"a","dimensions":5}`:                            "have 4",
		`{"input":"` + strings.Repeat("a", 41) + `"}`:             "no more than 40 bytes",
		`{"input":["a","` + strings.Repeat("a", 40) + `"]}`:       "input[1] has 41 tokens, special tokens included; the model `demo` takes 40",
		`{"input":[1000]}`:                                        "input[0] has token id 1000; the model's vocabulary has 300 tokens",
		`{"input":""}`:                                            head("embd") + `{"index":0,"object":"embedding","embedding":[0,0,0,0]}]` + usage(1, 1),
		`{"input":"","add_special_tokens":false}`:                 "input[0] has no tokens",
		`{"input":[]}`:                                            "input is an empty list",
		`{}`:                                                      "input is missing",
		`{"input":"a","encoding_format":"hex"}`:                   "encoding_format is \"hex\"",
		`{"input":"a","embed_dtype":"float16"}`:                   "embed_dtype is not supported",
		`{"input":"a","messages":[{"role":"u"}]}`:                 "not both",
		`{"input":"a","truncate_prompt_tokens":0}`:                "truncate_prompt_tokens is 0",
		`{"input":[["a"]]}`:                                       "a token id is an integer",
		`{"input":"a","truncation_side":"up"}`:                    "truncation_side is \"up\"",
		`{"input":"a","priority":"x"}`:                            "priority must be an integer, not string",
		`{"input":"a","user":"` + strings.Repeat("u", 300) + `"}`: "user has 300 bytes",
	} {
		w.check(path, body, want)
	}
}

// TestCohere: vectors in each type of number, with the checkpoint's prompt for what the input is.
func TestCohere(t *testing.T) {
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean, Normalize: true, Prompts: map[string]string{"query": "q:", "passage": "p:", "usual": "u:"}, Default: "usual"})
	const meta = `,"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":`
	w.check("/v2/embed", `{"texts":["aaabbbb","d"],"input_type":"search_query"}`,
		`{"id":"x","response_type":"embeddings_by_type","embeddings":{"float":[[0.6,0.8,0,0],[0,0,0,1]]},"texts":["aaabbbb","d"]`+meta+`14}}}`, "^q:aaabbbb", "^q:d")
	w.check("/v2/embed", `{"inputs":[{"content":[{"type":"text","text":"aaabbbb"}]}],"input_type":"search_document","embedding_types":["ubinary","binary","uint8","int8"]}`,
		`"embeddings":{"int8":[[76,102,0,0]],"uint8":[[204,230,128,128]],"binary":[[64]],"ubinary":[[192]]},"texts":["aaabbbb"]`, "^p:aaabbbb")
	w.check("/v2/embed", `{"texts":["a"],"input_type":"clustering"}`, `{"float":[[1,0,0,0]]}`, "^u:a")
	w.check("/v1/embed", `{"texts":["a"]}`, `{"id":"x","response_type":"embeddings_floats","embeddings":[[1,0,0,0]],"texts":["a"],"meta":{"api_version":{"version":"1"},"billed_units":{"input_tokens":4}}}`, "^u:a")
	w.check("/v1/embed", `{"texts":["a"],"embedding_types":["base64"]}`, `"response_type":"embeddings_by_type","embeddings":{"base64":["AACAPwAAAAAAAAAAAAAAAA=="]}`)
	long := strings.Repeat("a", 60)
	w.check("/v2/embed", `{"texts":["`+long+`b"],"truncate":"START","max_tokens":5}`, `"input_tokens":5`, "^aaab")
	w.check("/v2/embed", `{"texts":["`+long+`b"],"truncate":"END","output_dimension":2}`, `"float":[[1,0]]`)
	w.check("/v2/embed", `{"texts":["`+long+`"]}`, "no more than 40 bytes")
	w.check("/v2/embed", `{"texts":["a"],"input_type":"image"}`, `input_type is "image"`)
}

// TestBehindPooling: a vector goes through the layers that the checkpoint has behind its pooling, before it is cut and gets the
// length 1; those of all tokens do not.
func TestBehindPooling(t *testing.T) {
	half := pools.Layer{Weight: &pools.Matrix{Rows: 3, Cols: 4, Data: []float32{1, 0, 0, 0, 0, 2, 0, 0, 0, 0, -1, 0}}, After: pools.ReLU}
	last := pools.Layer{Weight: &pools.Matrix{Rows: 2, Cols: 3, Data: []float32{3, 0, 1, 0, 2, 1}}, Bias: &pools.Matrix{Rows: 1, Cols: 2, Data: []float32{0, 0}}}
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean, Dense: pools.Head{half, last}, Width: 2, Normalize: true, LowerCase: true})
	w.check("/v1/embeddings", `{"input":"abccc"}`, `"embedding":[0.6,0.8]`, "^abccc")
	w.check("/v1/embeddings", `{"input":"ABİ","normalize":false,"add_special_tokens":false}`, `"embedding":[3,4]`)
	if ids := w.last().IDs; string(rune(ids[2])) != "i" || len(ids) != 5 {
		t.Errorf("asked %v", ids)
	}
	w.check("/v1/embeddings", `{"input":"ab","dimensions":1,"normalize":false}`, `"embedding":[3]`)
	w.check("/v1/embeddings", `{"input":"ab","dimensions":3}`, "have 2")
	w.check("/embed_all", `{"inputs":"b"}`, `[[[0,0,0,0],[0,1,0,0]]]`)
	w.check("/score", `{"text_1":"a","text_2":["b"]}`, `"score":0`)
	w.subject.Dense = w.subject.Dense[1:]
	w.check("/v1/embeddings", `{"input":"a"}`, "the model gave 4 numbers; the layer behind its pooling reads 3")
}

// TestUnprompted: of a model that does not pool its prompt's tokens, the vectors of those behind them are pooled.
func TestUnprompted(t *testing.T) {
	for kind, want := range map[engine.Pool]string{engine.PoolMean: "[0.5,0.5,0,0]", engine.PoolMax: "[1,1,0,0]", engine.PoolFirst: "[1,0,0,0]"} {
		w := newWorld(t, checkpoint.Model{Kind: checkpoint.Embedder, Pool: kind, Unprompted: true, Prompts: map[string]string{"q": "cc:"}})
		w.check("/v1/embeddings", `{"input":"ab","prompt_name":"q"}`, `"embedding":`+want, "^cc:ab")
		if ask := w.last().Ask; ask.Pool != engine.PoolAll {
			t.Errorf("asked %+v", ask)
		}
		w.check("/v1/embeddings", `{"input":"dddab","prompt_name":"q","truncate_prompt_tokens":3,"truncation_side":"left"}`, `"embedding":`+want, "^ab")
		w.check("/v1/embeddings", `{"input":"","prompt_name":"q"}`, `"embedding":[0,0,0,0]`, "^cc:")
		w.check("/v1/embeddings", `{"input":"ab"}`, `"embedding":[1,1,0,0]`, "^ab") // pooled where the model runs
		if ask := w.last().Ask; ask.Pool != kind {
			t.Errorf("asked %+v", ask)
		}
	}
}

// TestTruncation: only where it is asked for, at the side that is asked for, and never of special tokens.
func TestTruncation(t *testing.T) {
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean, MaxTokens: 10})
	long := strings.Repeat("a", 30) + strings.Repeat("b", 30)
	one := func(vector string, tokens int) string {
		return head("embd") + `{"index":0,"object":"embedding","embedding":` + vector + `}]` + usage(tokens, 1)
	}
	w.check("/v1/embeddings", `{"input":"`+long+`","truncate_prompt_tokens":-1}`, one("[9,0,0,0]", 10), "^aaaaaaaaa")
	w.check("/v1/embeddings", `{"input":"`+long+`","truncate_prompt_tokens":4,"truncation_side":"left"}`, one("[0,3,0,0]", 4), "^bbb")
	w.check("/v1/embeddings", `{"input":[97,97,98],"truncate_prompt_tokens":1}`, one("[1,0,0,0]", 1), "a")
	w.check("/v1/embeddings", `{"input":"`+long+`","truncate_prompt_tokens":20}`, "input[0] has 20 tokens, special tokens included; the model `demo` takes 10")
	w.check("/v1/embeddings", `{"input":"aaaaaaaaaa"}`, "input[0] has 11 tokens")
}

// TestTruncationLeavesText: a limit below what is around a text, and a token of it, is refused with both figures, whatever is around it.
func TestTruncationLeavesText(t *testing.T) {
	embedder := checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean, Prompts: map[string]string{"q": "que:"}}
	ranker := checkpoint.Model{Kind: checkpoint.Reranker, Labels: []string{"yes"}, Pairs: checkpoint.ByQwen3, Yes: checkpoint.Token{ID: 'Y'}, No: checkpoint.Token{ID: 'N'}}
	around := len(qwen3Before + "<Instruct>: I\n<Query>: q\n" + qwen3Document + qwen3After)
	for _, c := range []struct {
		model      checkpoint.Model
		path, body string // without its last member
		around     int
		texts      int
	}{
		{embedder, "/v1/embeddings", `{"input":"aab"`, 1, 1},
		{embedder, "/v1/embeddings", `{"input":"aab","truncation_side":"left"`, 1, 1},
		{embedder, "/v1/embeddings", `{"input":["aab"],"prompt_name":"q"`, 5, 1},
		{embedder, "/v1/embeddings", `{"input":["aab"],"prompt_name":"q","truncation_side":"left"`, 1, 1},
		{embedder, "/v1/embeddings", `{"messages":[{"role":"user","content":"aab"}]`, len("head:"), 1},
		{embedder, "/v1/embeddings", `{"messages":[{"role":"user","content":"aab"}],"truncation_side":"left"`, len(":tail"), 1},
		{crossEncoder, "/score", `{"text_1":"aaa","text_2":"aaaa"`, 1, 2},
		{ranker, "/rerank", `{"query":"q","documents":["dd"],"instruction":"I"`, around, 1},
	} {
		w := newWorld(t, c.model)
		w.widen(2000)
		w.subject.Text.Template = framed{}
		for _, n := range []int{1, c.around, c.around + c.texts - 1} {
			w.check(c.path, fmt.Sprintf(`%s,"truncate_prompt_tokens":%d}`, c.body, n),
				fmt.Sprintf("is to be truncated to %d tokens, which leaves no room for its text: %d are around that, which are never truncated; ask for %d or more", n, c.around, c.around+c.texts))
		}
		w.check(c.path, fmt.Sprintf(`%s,"truncate_prompt_tokens":%d}`, c.body, c.around+c.texts), fmt.Sprintf(`"prompt_tokens":%d`, c.around+c.texts))
	}
}

// TestLongestFirst is held to the library's own results.
func TestLongestFirst(t *testing.T) {
	for _, c := range [][5]int{{3, 4, 10, 3, 4}, {3, 4, 7, 3, 4}, {3, 9, 8, 3, 5}, {9, 3, 8, 5, 3}, {9, 9, 8, 4, 4}, {9, 9, 7, 3, 4}, {10, 9, 7, 4, 3}, {5, 5, 1, 0, 1}, {5, 5, 0, 0, 0}, {0, 9, 4, 0, 4}} {
		if a, b := longestFirst(c[0], c[1], c[2]); a != c[3] || b != c[4] {
			t.Errorf("%d and %d in %d: %d and %d, want %d and %d", c[0], c[1], c[2], a, b, c[3], c[4])
		}
	}
}

// TestCancel: a request that ends early withdraws what has no result.
func TestCancel(t *testing.T) {
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean})
	w.scheduler.Answer = nil
	asked, refused := decode(t, "/v1/embeddings", `{"input":["a","b","c"]}`)
	if refused != nil {
		t.Fatal(refused)
	}
	c, err := w.Call(t.Context(), w.subject, request.New(w.pool, request.Origin{Model: "demo"}), asked)
	if err = errors.Join(err, c.Admit(t.Context()), c.Submit()); err != nil {
		t.Fatal(err)
	}
	submits, _ := w.scheduler.Seen()
	w.pool.Deliver(reply(submits[1], 1))
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := c.Wait(ctx); err == nil {
		t.Error("it waits for nobody")
	}
	c.Close()
	if _, cancels := w.scheduler.Seen(); len(cancels) != 2 || cancels[0] != submits[0].ID || cancels[1] != submits[2].ID {
		t.Errorf("cancelled %v of %v", cancels, submits)
	}
	if held := w.numbers.Held(); held != 0 {
		t.Errorf("%d numbers are still counted", held)
	}
}
