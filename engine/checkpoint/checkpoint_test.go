package checkpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// files writes a checkpoint's files below a folder of a name.
func files(t *testing.T, name string, contents map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	writeFiles(t, dir, contents)
	return dir
}

func writeFiles(t *testing.T, dir string, contents map[string]string) {
	t.Helper()
	for path, text := range contents {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	modules = `[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
		{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},{"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]`
	lastToken = `{"word_embedding_dimension":1024,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":false,"pooling_mode_max_tokens":false,
		"pooling_mode_mean_sqrt_len_tokens":false,"pooling_mode_weightedmean_tokens":false,"pooling_mode_lasttoken":true,"include_prompt":true}`
)

// TestKinds: checkpoints as their authors publish them.
func TestKinds(t *testing.T) {
	config := func(text string) map[string]string { return map[string]string{"config.json": text} }
	for _, c := range []struct {
		name, served string
		files        map[string]string
		want         Model
	}{
		{"demo", "demo", config(`{"architectures":["LlamaForCausalLM"],"hidden_size":64}`), Model{Kind: Generator, Pool: engine.PoolLast, Normalize: true, Width: 64}},
		{"Qwen3-Embedding-0.6B", "e", map[string]string{
			"config.json": `{"architectures":["Qwen3ForCausalLM"],"hidden_size":1024}`, "modules.json": modules, "1_Pooling/config.json": lastToken,
			"config_sentence_transformers.json": `{"prompts":{"query":"Instruct: X\nQuery:","document":""},"default_prompt_name":null,"similarity_fn_name":"cosine"}`,
		}, Model{Kind: Embedder, Pool: engine.PoolLast, Normalize: true, Width: 1024, Prompts: map[string]string{"query": "Instruct: X\nQuery:", "document": ""}}},
		{"all-MiniLM-L6-v2", "e", map[string]string{
			"config.json": `{"architectures":["BertModel"],"hidden_size":384}`, "modules.json": strings.Split(modules, `,{"idx":2`)[0] + "]",
			"1_Pooling/config.json": `{"pooling_mode":"mean"}`, "sentence_bert_config.json": `{"max_seq_length":256,"do_lower_case":false}`,
			"config_sentence_transformers.json": `{"prompts":{"q":"q: "},"default_prompt_name":"q","similarity_fn_name":"dot"}`,
		}, Model{Kind: Embedder, Pool: engine.PoolMean, Width: 384, MaxTokens: 256, Prompts: map[string]string{"q": "q: "}, Default: "q", Similarity: Dot}},
		{"bare", "e", config(`{"architectures":["XLMRobertaModel"],"matryoshka_dimensions":[64,128]}`), Model{Kind: Embedder, Pool: engine.PoolMean, Normalize: true, Dimensions: []int{64, 128}}},
		{"ms-marco", "r", config(`{"architectures":["BertForSequenceClassification"],"id2label":{"0":"LABEL_0"},"sbert_ce_default_activation_function":"torch.nn.modules.linear.Identity"}`),
			Model{Kind: Classifier, Pool: engine.PoolFirst, Normalize: true, Labels: []string{"LABEL_0"}}},
		{"bge", "r", config(`{"architectures":["XLMRobertaForSequenceClassification"],"num_labels":1}`), Model{Kind: Classifier, Pool: engine.PoolFirst, Normalize: true, Labels: []string{"LABEL_0"}, Activation: Sigmoid}},
		{"gte", "r", config(`{"architectures":["ModernBertForSequenceClassification"],"classifier_pooling":"mean","id2label":{"0":"x"},"sentence_transformers":{"activation_fn":"torch.nn.modules.activation.Sigmoid"}}`),
			Model{Kind: Classifier, Pool: engine.PoolMean, Normalize: true, Labels: []string{"x"}, Activation: Sigmoid}},
		{"sst2", "c", config(`{"architectures":["LlamaForSequenceClassification"],"id2label":{"1":"pos","0":"neg"}}`), Model{Kind: Classifier, Pool: engine.PoolLast, Normalize: true, Labels: []string{"neg", "pos"}, Activation: Softmax}},
		{"emotions", "c", config(`{"architectures":["BertForSequenceClassification"],"problem_type":"multi_label_classification"}`), Model{Kind: Classifier, Pool: engine.PoolFirst, Normalize: true, Labels: []string{"LABEL_0", "LABEL_1"}, Activation: Sigmoid}},
		{"skywork", "w", config(`{"architectures":["Qwen2ForRewardModel"]}`), Model{Kind: Reward, Pool: engine.PoolLast, Normalize: true, Labels: []string{"LABEL_0"}}},
		{"prm", "w", config(`{"architectures":["Qwen2ForProcessRewardModel"],"num_labels":2}`), Model{Kind: Reward, Pool: engine.PoolLast, Normalize: true, Labels: []string{"LABEL_0", "LABEL_1"}, Activation: Softmax, PerToken: true}},
		{"Qwen3-Reranker-0.6B", "r", config(`{"architectures":["Qwen3ForCausalLM"]}`), Model{Kind: Reranker, Pool: engine.PoolLast, Normalize: true, Labels: []string{"yes"}, Activation: Sigmoid, Pairs: ByQwen3, No: Token{Text: "no"}, Yes: Token{Text: "yes"}}},
		{"snapshot", "org/qwen3-reranker-4b", config(`{"architectures":["Qwen3ForCausalLM"]}`), Model{Kind: Reranker, Pool: engine.PoolLast, Normalize: true, Labels: []string{"yes"}, Activation: Sigmoid, Pairs: ByQwen3, No: Token{Text: "no"}, Yes: Token{Text: "yes"}}},
		{"Qwen3-Reranker-0.6B-seq-cls", "r", config(`{"architectures":["Qwen3ForSequenceClassification"],"id2label":{"0":"LABEL_0"}}`), Model{Kind: Classifier, Pool: engine.PoolLast, Normalize: true, Labels: []string{"LABEL_0"}, Activation: Sigmoid, Pairs: ByQwen3}},
	} {
		got, err := Open(files(t, c.name, c.files), c.served, Overrides{})
		if err != nil || fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", c.name, got, err, c.want)
		}
	}
}

// TestRerankers: language models whose files, or overrides, say that they answer to pairs.
func TestRerankers(t *testing.T) {
	const qwen, sentence = `{"architectures":["Qwen3ForCausalLM"]}`, `[{"path":"","type":"sentence_transformers.base.modules.transformer.Transformer"},
		{"path":"1_LogitScore","type":"sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}]`
	base := Model{Kind: Reranker, Pool: engine.PoolLast, Normalize: true, Labels: []string{"yes"}, Activation: Sigmoid, No: Token{Text: "no"}, Yes: Token{Text: "yes"}}
	as := func(change func(*Model)) Model { m := base; change(&m); return m }
	for i, c := range []struct {
		config string
		over   Overrides
		files  map[string]string
		want   Model
	}{
		{qwen, Overrides{AnswerTokens: []string{"no", "yes"}, Qwen3Reranker: true}, nil, as(func(m *Model) { m.Pairs = ByQwen3 })},
		{qwen, Overrides{Qwen3Reranker: true}, nil, as(func(m *Model) { m.Pairs = ByQwen3 })},
		{`{"architectures":["Qwen3ForCausalLM"],"classifier_from_token":["no","yes"],"is_original_qwen3_reranker":true}`, Overrides{}, nil, as(func(m *Model) { m.Pairs = ByQwen3 })},
		{`{"architectures":["Qwen2ForCausalLM"]}`, Overrides{AnswerTokens: []string{"0", "1"}, Method: "from_2_way_softmax"}, nil, as(func(m *Model) { m.No, m.Yes = Token{Text: "0"}, Token{Text: "1"} })},
		{qwen, Overrides{}, map[string]string{"modules.json": sentence, "1_LogitScore/config.json": `{"true_token_id":9693,"false_token_id":2152,"module_input_name":"causal_logits"}`,
			"sentence_bert_config.json":         `{"transformer_task":"text-generation","processing_kwargs":{"chat_template":{"add_generation_prompt":true,"max_length":9}}}`,
			"config_sentence_transformers.json": `{"activation_fn":"torch.nn.modules.linear.Identity","prompts":{"web":"Find it"},"default_prompt_name":"web"}`},
			as(func(m *Model) {
				m.Normalize, m.Activation, m.No, m.Yes = false, Identity, Token{ID: 2152}, Token{ID: 9693}
				m.Prompts, m.Default, m.TemplateVariables = map[string]string{"web": "Find it"}, "web", map[string]json.RawMessage{"add_generation_prompt": json.RawMessage("true")}
			})},
	} {
		all := map[string]string{"config.json": c.config}
		maps.Copy(all, c.files)
		got, err := Open(files(t, "m", all), "m", c.over)
		if err != nil || fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%d: got %+v, %v\nwant %+v", i, got, err, c.want)
		}
	}
	for want, over := range map[string]Overrides{
		`classifier_from_token of 1 tokens with method ""`: {AnswerTokens: []string{"Yes"}}, `two tokens, that for no first`: {AnswerTokens: []string{"a", "b", "c"}, Qwen3Reranker: true},
		`with method "no_post_processing"`: {AnswerTokens: []string{"a", "b"}, Method: "no_post_processing"},
	} {
		if _, err := Open(files(t, "m", map[string]string{"config.json": qwen}), "m", over); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", over, err, want)
		}
	}
	for want, score := range map[string]string{"missing true_token_id": `{}`, "missing false_token_id": `{"true_token_id":1}`, `invalid module_input_name "x"`: `{"true_token_id":1,"false_token_id":2,"module_input_name":"x"}`} {
		_, err := Open(files(t, "m", map[string]string{"config.json": qwen, "modules.json": sentence, "1_LogitScore/config.json": score}), "m", Overrides{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", score, err, want)
		}
	}
}

// TestPoolings: each way that sentence-transformers writes.
func TestPoolings(t *testing.T) {
	for i, mode := range modes {
		for _, text := range []string{fmt.Sprintf(`{%q:true}`, mode.key), fmt.Sprintf(`{"pooling_mode":%q}`, mode.name), fmt.Sprintf(`{"pooling_mode":[%q],%q:true}`, mode.name, mode.key)} {
			m, err := Open(files(t, "m", map[string]string{"config.json": `{}`, "modules.json": modules, "1_Pooling/config.json": text}), "m", Overrides{})
			if err != nil || m.Pool != mode.pool {
				t.Errorf("%d %s: %+v, %v", i, text, m, err)
			}
		}
	}
}

// TestMistakes: what cannot be served is named.
func TestMistakes(t *testing.T) {
	for want, contents := range map[string]map[string]string{
		"has no config.json":                                                  {"README.md": ""},
		"no such file or directory":                                           {},
		"config.json: unexpected end":                                         {"config.json": `{`},
		`unsupported module type "LSTM"`:                                      {"config.json": `{}`, "modules.json": `[{"type":"sentence_transformers.models.LSTM","path":"2_LSTM"}]`},
		"a Dense before Pooling":                                              {"config.json": `{}`, "modules.json": `[{"type":"sentence_transformers.models.Dense","path":"2_Dense"}]`},
		"missing 1_Pooling/config.json":                                       {"config.json": `{}`, "modules.json": modules},
		"missing pooling_mode":                                                {"config.json": `{}`, "modules.json": modules, "1_Pooling/config.json": `{}`},
		"got 2 pooling modes (cls, max)":                                      {"config.json": `{}`, "modules.json": modules, "1_Pooling/config.json": `{"pooling_mode_cls_token":true,"pooling_mode_max_tokens":true}`},
		"got 2 pooling modes (cls, mean)":                                     {"config.json": `{}`, "modules.json": modules, "1_Pooling/config.json": `{"pooling_mode":["mean","cls"]}`},
		"missing pooling_mode: want one of":                                   {"config.json": `{}`, "modules.json": modules, "1_Pooling/config.json": `{"pooling_mode_cls_token":false}`},
		`unsupported pooling_mode "nonsense": want one of cls, mean, max`:     {"config.json": `{}`, "modules.json": modules, "1_Pooling/config.json": `{"pooling_mode":"nonsense"}`},
		"invalid pooling_mode 3: want a name or a list":                       {"config.json": `{}`, "modules.json": modules, "1_Pooling/config.json": `{"pooling_mode":3}`},
		"include_prompt":                                                      {"config.json": `{}`, "modules.json": modules, "1_Pooling/config.json": `{"pooling_mode":"weightedmean","include_prompt":false}`},
		"outside the checkpoint":                                              {"config.json": `{}`, "modules.json": strings.ReplaceAll(modules, "1_Pooling", "../../etc")},
		`invalid default_prompt_name "q"`:                                     {"config.json": `{}`, "config_sentence_transformers.json": `{"default_prompt_name":"q"}`},
		`unsupported similarity_fn_name "hamming"`:                            {"config.json": `{}`, "config_sentence_transformers.json": `{"similarity_fn_name":"hamming"}`},
		"invalid word_embedding_dimension 9: hidden_size of config.json is 8": {"config.json": `{"hidden_size":8}`, "modules.json": modules, "1_Pooling/config.json": `{"pooling_mode_cls_token":true,"word_embedding_dimension":9}`},
		"several modules of type \"Normalize\"":                               {"config.json": `{}`, "modules.json": `[{"type":"a.Normalize"},{"type":"b.Normalize"}]`},
		"tokenizer.json":                                                      {"config.json": `{}`, "sentence_bert_config.json": `{"do_lower_case":true}`},
		"tokenizer.json: invalid":                                             {"config.json": `{}`, "sentence_bert_config.json": `{"do_lower_case":true}`, "tokenizer.json": `{x`},
		"id2label has 1 entries but none for 0":                               {"config.json": `{"architectures":["BertForSequenceClassification"],"id2label":{"4":"x"}}`},
		`invalid classifier_pooling "max"`:                                    {"config.json": `{"architectures":["ModernBertForSequenceClassification"],"classifier_pooling":"max"}`},
		"invalid num_labels -1":                                               {"config.json": `{"architectures":["BertForSequenceClassification"],"num_labels":-1}`},
	} {
		if m, err := Open(files(t, "m", contents), "m", Overrides{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %+v, %v; want %q", contents, m, err, want)
		}
	}
}

// FuzzOpen: any files are read or refused, and what is read can be worked with.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"architectures":["BertForSequenceClassification"],"id2label":{"0":"a"},"sentence_transformers":{"activation_fn":"x.Sigmoid"}}`), []byte(modules), []byte(lastToken), []byte(`{"prompts":{"q":"q: "},"default_prompt_name":"q"}`))
	f.Add([]byte(`{"architectures":["Qwen3ForCausalLM"],"matryoshka_dimensions":[1]}`), []byte(`[{"type":"a.Normalize"}]`), []byte(`{"pooling_mode":"mean"}`), []byte(`{"similarity_fn_name":"dot"}`))
	f.Add([]byte(`{"architectures":["Qwen2ForProcessRewardModel"],"num_labels":3}`), []byte(`[]`), []byte(`{}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, config, modules, pooling, prompts []byte) {
		m, err := Open(files(t, "m", map[string]string{
			"config.json": string(config), "modules.json": string(modules), "1_Pooling/config.json": string(pooling), "config_sentence_transformers.json": string(prompts),
		}), "m", Overrides{})
		if err != nil {
			return
		}
		if m.Pool == engine.PoolNone || m.Pool > engine.PoolAll || m.Kind.String() == "" || (m.Kind == Classifier || m.Kind == Reward) && len(m.Labels) == 0 {
			t.Errorf("%+v", m)
		}
	})
}

// TestTexts: how long texts may be and in which case they are read, whoever says so.
func TestTexts(t *testing.T) {
	base := map[string]string{"config.json": `{"architectures":["BertModel"]}`, "modules.json": modules, "1_Pooling/config.json": `{"pooling_mode":"cls","include_prompt":false}`}
	for _, c := range []struct {
		files map[string]string
		most  int
		lower bool
	}{
		{nil, 0, false},
		{map[string]string{"tokenizer_config.json": `{"model_max_length":512}`}, 512, false},
		{map[string]string{"tokenizer_config.json": `{"model_max_length":1000000000000000019884624838656}`}, 0, false},
		{map[string]string{"tokenizer_config.json": `{"model_max_length":512}`, "sentence_bert_config.json": `{"max_seq_length":128}`}, 128, false},
		{map[string]string{"sentence_bert_config.json": `{"do_lower_case":true}`, "tokenizer.json": `{"normalizer":null}`}, 0, true},
		{map[string]string{"sentence_bert_config.json": `{"do_lower_case":true}`, "tokenizer.json": `{"normalizer":{"type":"BertNormalizer","lowercase":true}}`}, 0, false},
		{map[string]string{"sentence_bert_config.json": `{"do_lower_case":true}`, "tokenizer.json": `{"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}}`}, 0, false},
		{map[string]string{"sentence_bert_config.json": `{"do_lower_case":false}`, "tokenizer.json": `{"normalizer":{"type":"NFC"}}`}, 0, false},
	} {
		all := maps.Clone(base)
		maps.Copy(all, c.files)
		m, err := Open(files(t, "m", all), "m", Overrides{})
		if err != nil || m.MaxTokens != c.most || m.LowerCase != c.lower || !m.Unprompted {
			t.Errorf("%v: %+v, %v", c.files, m, err)
		}
	}
	delete(base, "modules.json")
	base["tokenizer_config.json"] = `{"model_max_length":512}`
	if m, err := Open(files(t, "m", base), "m", Overrides{}); err != nil || m.MaxTokens != 0 {
		t.Errorf("no sentence-transformers': %+v, %v", m, err)
	}
}
