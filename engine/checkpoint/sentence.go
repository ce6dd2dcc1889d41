package checkpoint

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// readSentenceFiles reads the files of sentence-transformers, where there are any: then the checkpoint is an Embedder.
func (m *Model) readSentenceFiles(dir string, c *config) error {
	var modules []module
	found, err := readJSONFile(dir, "modules.json", &modules)
	if err != nil {
		return err
	}
	m.Normalize = !found
	seen := map[string]bool{}
	for _, next := range modules {
		kind := next.Type[strings.LastIndexByte(next.Type, '.')+1:]
		if seen[kind] && kind != "Dense" {
			return fmt.Errorf("modules.json has several modules of type %.60q, want one", kind)
		}
		seen[kind] = true
		if err := m.readModule(dir, kind, next.Path); err != nil {
			return err
		}
	}
	if err := m.readPrompts(dir, c); err != nil {
		return err
	}
	return m.readLimits(dir, found)
}

// module is one of modules.json.
type module struct{ Path, Type string }

// readModule reads one of modules.json by its kind.
func (m *Model) readModule(dir, kind, path string) error {
	switch kind {
	case "Transformer":
		return nil
	case "Pooling":
		m.Kind = Embedder
		return m.readPooling(dir, path)
	case "Dense":
		return m.readDense(dir, path)
	case "Normalize":
		m.Normalize = true
		return nil
	case "LogitScore":
		return m.logitScore(dir, path)
	}
	return fmt.Errorf("unsupported module type %.60q in modules.json: want Transformer, Pooling, Dense, Normalize or LogitScore; save the model without it, if its vectors suffice", kind)
}

// readLimits reads how texts are read: how many tokens of them, in which case, and by which variables of the template.
func (m *Model) readLimits(dir string, sentence bool) error {
	var limits struct {
		MaxTokens *int `json:"max_seq_length"`
		LowerCase bool `json:"do_lower_case"`
		Processor struct {
			Template map[string]json.RawMessage `json:"chat_template"`
		} `json:"processing_kwargs"`
	}
	if _, err := readJSONFile(dir, "sentence_bert_config.json", &limits); err != nil {
		return err
	}
	if limits.LowerCase {
		lowers, err := tokenizerLowers(dir)
		if err != nil {
			return err
		}
		m.LowerCase = !lowers
	}
	m.readTemplateVariables(limits.Processor.Template)
	if limits.MaxTokens != nil && *limits.MaxTokens > 0 {
		m.MaxTokens = *limits.MaxTokens
		return nil
	}
	var tokenizer struct {
		MaxTokens float64 `json:"model_max_length"` // 1e30 where nothing bounds it
	}
	if !sentence {
		return nil
	}
	_, err := readJSONFile(dir, "tokenizer_config.json", &tokenizer)
	if n := tokenizer.MaxTokens; n >= 1 && n < 1<<30 {
		m.MaxTokens = int(n)
	}
	return err
}

// maxTokenizer is the most that is read of tokenizer.json, in bytes.
const maxTokenizer = 256 << 20

// normalizer is what of a tokenizer's normalization matters.
type normalizer struct {
	Type      string       `json:"type"`
	LowerCase bool         `json:"lowercase"`
	List      []normalizer `json:"normalizers"`
}

func (n *normalizer) lowersCase() bool {
	return n.Type == "Lowercase" || n.LowerCase || slices.ContainsFunc(n.List, func(n normalizer) bool { return n.lowersCase() })
}

// tokenizerLowers says whether the tokenizer reads texts in lower case.
func tokenizerLowers(dir string) (bool, error) {
	text, err := regular.ReadFile(filepath.Join(dir, "tokenizer.json"), maxTokenizer)
	if err != nil {
		return false, err
	}
	var tokenizer struct{ Normalizer normalizer }
	if err := json.Unmarshal(text, &tokenizer); err != nil {
		return false, fmt.Errorf("tokenizer.json: %w", err)
	}
	return tokenizer.Normalizer.lowersCase(), nil
}

// modes are the keys of a pooling's file, and newer names for them.
var modes = []struct {
	key, name string
	pool      engine.Pool
}{
	{"pooling_mode_cls_token", "cls", engine.PoolFirst},
	{"pooling_mode_mean_tokens", "mean", engine.PoolMean},
	{"pooling_mode_max_tokens", "max", engine.PoolMax},
	{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", engine.PoolRoot},
	{"pooling_mode_weightedmean_tokens", "weightedmean", engine.PoolWeighted},
	{"pooling_mode_lasttoken", "lasttoken", engine.PoolLast},
}

// readPooling reads the module's own file below dir.
func (m *Model) readPooling(dir, path string) error {
	if !filepath.IsLocal(path) {
		return checkModulePath(path)
	}
	name := filepath.Join(path, "config.json")
	var keys map[string]json.RawMessage
	found, err := readJSONFile(dir, name, &keys)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("missing %s, which modules.json names", name)
	}
	if m.Pool, err = poolOfKeys(keys); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, key := range []string{"word_embedding_dimension", "embedding_dimension"} {
		if width := string(keys[key]); width != "" && m.Width > 0 && width != strconv.Itoa(m.Width) {
			return fmt.Errorf("%s: invalid %s %.20s: hidden_size of config.json is %d", name, key, width, m.Width)
		}
	}
	m.Unprompted = string(keys["include_prompt"]) == "false" && m.Pool != engine.PoolLast
	if m.Unprompted && m.Pool == engine.PoolWeighted {
		return fmt.Errorf("%s: include_prompt false is not supported with weightedmean", name)
	}
	return nil
}

// poolOfKeys is the one way of pooling that a module's file chooses: by pooling_mode, a name or a list of names, or by a key of its own.
func poolOfKeys(keys map[string]json.RawMessage) (engine.Pool, error) {
	var known, chosen []string
	for _, mode := range modes {
		known = append(known, mode.name)
		if string(keys[mode.key]) == "true" {
			chosen = append(chosen, mode.name)
		}
	}
	if raw := keys["pooling_mode"]; len(raw) > 0 && string(raw) != "null" {
		var names []string
		if json.Unmarshal(raw, &names) != nil {
			names = make([]string, 1)
			if json.Unmarshal(raw, &names[0]) != nil {
				return 0, fmt.Errorf("invalid pooling_mode %.60s: want a name or a list of names", raw)
			}
		}
		chosen = append(chosen, names...)
	}
	slices.Sort(chosen)
	chosen = slices.Compact(chosen)
	for _, name := range chosen {
		if !slices.Contains(known, name) {
			return 0, fmt.Errorf("unsupported pooling_mode %.60q: want one of %s", name, strings.Join(known, ", "))
		}
	}
	if len(chosen) == 0 {
		return 0, fmt.Errorf("missing pooling_mode: want one of %s", strings.Join(known, ", "))
	}
	if len(chosen) > 1 {
		return 0, fmt.Errorf("got %d pooling modes (%s), whose vectors would be concatenated: want one of %s", len(chosen), strings.Join(chosen, ", "), strings.Join(known, ", "))
	}
	return modes[slices.Index(known, chosen[0])].pool, nil
}

// readPrompts reads what texts get in front, how vectors are compared, and what makes scores of logits.
func (m *Model) readPrompts(dir string, model *config) error {
	const name = "config_sentence_transformers.json"
	var c struct {
		Prompts    map[string]string `json:"prompts"`
		Default    *string           `json:"default_prompt_name"`
		Similarity *string           `json:"similarity_fn_name"`
		Activation string            `json:"activation_fn"`
	}
	if _, err := readJSONFile(dir, name, &c); err != nil {
		return err
	}
	m.Prompts = c.Prompts
	if c.Activation != "" {
		model.Sentence.Activation = c.Activation
	}
	if c.Default != nil && *c.Default != "" {
		if _, ok := c.Prompts[*c.Default]; !ok {
			return fmt.Errorf("%s: invalid default_prompt_name %.60q: not among its prompts", name, *c.Default)
		}
		m.Default = *c.Default
	}
	if c.Similarity == nil {
		return nil
	}
	known := map[string]Similarity{"cosine": Cosine, "dot": Dot, "euclidean": Euclidean, "manhattan": Manhattan}
	similarity, ok := known[*c.Similarity]
	if !ok {
		return fmt.Errorf("%s: unsupported similarity_fn_name %.60q: want cosine, dot, euclidean or manhattan", name, *c.Similarity)
	}
	m.Similarity = similarity
	return nil
}
