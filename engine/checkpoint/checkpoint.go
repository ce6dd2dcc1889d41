// Package checkpoint says what a checkpoint of a text model is for (to generate, to embed, to classify or to rank) and how its
// vectors and logits become answers, by its own files: config.json and those of sentence-transformers.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/pooling"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// Kind is what a checkpoint is for.
type Kind uint8

// The kinds.
const (
	Generator  Kind = iota // an LM: tokens, and a vector of its last token
	Embedder               // vectors of texts
	Classifier             // logits of classes; of one class it ranks pairs
	Reward                 // logits that rate a text, or each of its tokens
	Reranker               // an LM that answers yes or no to a pair
)

var kindNames = [...]string{"generator", "embedder", "classifier", "reward model", "reranker"}

func (k Kind) String() string { return kindNames[k] }

// Activation is what makes scores of logits.
type Activation uint8

// The activations.
const (
	Identity Activation = iota
	Sigmoid
	Softmax
)

// Similarity is how two vectors are compared.
type Similarity uint8

// The similarities, as sentence-transformers has them: distances are negative.
const (
	Cosine Similarity = iota
	Dot
	Euclidean
	Manhattan
)

// Pairs is how a query and a document become one input, unless the chat template knows of queries and documents: then it does.
type Pairs uint8

// The ways.
const (
	ByTokenizer Pairs = iota // by the pair template of the tokenizer
	ByQwen3                  // by the text that Qwen3-Reranker was trained on
)

// Model is what a checkpoint's files say.
type Model struct {
	Kind       Kind
	Pool       engine.Pool  // of its vectors, or of what its head reads
	Dense      pooling.Head // that its vectors go through when they are pooled; nil: none
	Normalize  bool         // its vectors have the length 1 then
	Width      int          // numbers of a vector; 0: not known
	Dimensions []int        // that vectors may be cut to; nil: any up to Width
	Prompts    map[string]string
	Unprompted bool   // the tokens of the prompt are not pooled
	LowerCase  bool   // texts are read in lower case, which the tokenizer does not see to
	Default    string // name of the prompt that texts get without another; may be empty
	Similarity Similarity
	MaxTokens  int // of an input, where it is less than the model's; 0: the model's

	Labels     []string   // of the head, in the order of its logits
	Activation Activation // of the head
	PerToken   bool       // the head rates each token
	Pairs      Pairs

	Yes, No           Token                      // the two answers of a Reranker
	TemplateVariables map[string]json.RawMessage // of the chat template, for pairs; nil: none
}

// Longest is how many tokens an input may have, of a model whose context holds so many.
func (m *Model) Longest(context int) int {
	if n := m.MaxTokens; n > 0 && n < context {
		return n
	}
	return context
}

// config is what of config.json matters.
type config struct {
	Architectures     []string          `json:"architectures"`
	HiddenSize        int               `json:"hidden_size"`
	NumLabels         *int              `json:"num_labels"`
	ID2Label          map[string]string `json:"id2label"`
	ProblemType       string            `json:"problem_type"`
	ClassifierPooling string            `json:"classifier_pooling"`
	Matryoshka        []int             `json:"matryoshka_dimensions"`
	OldActivation     string            `json:"sbert_ce_default_activation_function"`
	AnswerTokens      []string          `json:"classifier_from_token"`
	AnswerMethod      string            `json:"method"`
	Qwen3Reranker     bool              `json:"is_original_qwen3_reranker"`
	Sentence          struct {
		Activation string `json:"activation_fn"`
	} `json:"sentence_transformers"`
}

// maxFile is the most that is read of one file, in bytes.
const maxFile = 16 << 20

// Open reads what the checkpoint in dir is for. Name is the model's: of a CausalLM that is Qwen3's reranker, as it was first
// published, the name alone tells, unless overrides do.
func Open(dir, name string, overrides Overrides) (*Model, error) {
	var c config
	if found, err := readJSONFile(dir, "config.json", &c); err != nil || !found {
		return nil, errors.Join(err, checkConfigFound(found, dir))
	}
	overrides.apply(&c)
	architecture := ""
	if len(c.Architectures) > 0 {
		architecture = c.Architectures[0]
	}
	m := &Model{Width: c.HiddenSize, Dimensions: c.Matryoshka, Pool: poolOf(architecture)}
	if err := m.readSentenceFiles(dir, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	named := qwen3Reranker(architecture, name, filepath.Base(dir))
	m.Kind = m.kindOf(architecture, &c, named)
	if named || c.Qwen3Reranker {
		m.Pairs = ByQwen3
	}
	switch m.Kind {
	case Classifier, Reward:
		if err := m.readHead(&c, architecture); err != nil {
			return nil, fmt.Errorf("%s: config.json: %w", dir, err)
		}
	case Reranker:
		if err := m.readReranker(&c); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	return m, nil
}

func checkConfigFound(found bool, dir string) error {
	if found {
		return nil
	}
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	return fmt.Errorf("%s has no config.json", dir)
}

// readFile reads a file of dir; of a GGUF model there is config.json alone.
func readFile(dir, name string) ([]byte, error) {
	switch {
	case name == "config.json":
		return weights.ReadConfigFile(dir)
	case gguf.IsName(dir):
		return nil, os.ErrNotExist
	}
	return regular.ReadFile(filepath.Join(dir, name), maxFile)
}

// readJSONFile decodes a file of dir, if it is there.
func readJSONFile(dir, name string, into any) (found bool, err error) {
	path := filepath.Join(dir, name)
	text, err := readFile(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return true, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// kindOf tells the kind by the architecture, by modules that m has read, and by whether the model is named as Qwen3's reranker.
func (m *Model) kindOf(architecture string, c *config, named bool) Kind {
	switch {
	case m.Kind == Reranker:
		return Reranker
	case strings.HasSuffix(architecture, "ForSequenceClassification"), strings.HasSuffix(architecture, "ForTokenClassification"):
		return Classifier
	case strings.HasSuffix(architecture, "RewardModel"):
		return Reward
	case m.Kind == Embedder:
		return Embedder
	case !hasLMHead(architecture):
		return Embedder
	case named, c.Qwen3Reranker, len(c.AnswerTokens) > 0:
		return Reranker
	}
	return Generator
}

// hasLMHead says whether an architecture has an LM head that says the next token.
func hasLMHead(architecture string) bool {
	return strings.Contains(architecture, "CausalLM") || strings.HasSuffix(architecture, "LMHeadModel") || strings.HasSuffix(architecture, "ForConditionalGeneration")
}

// qwen3Reranker says whether the names are those of one, or of a classifier made of one.
func qwen3Reranker(architecture string, names ...string) bool {
	if !strings.HasPrefix(architecture, "Qwen3For") {
		return false
	}
	for _, name := range names {
		if strings.Contains(strings.ToLower(name), "qwen3-reranker") {
			return true
		}
	}
	return false
}

// encoders are how architectures begin whose tokens see those behind them.
var encoders = []string{"Bert", "Roberta", "XLMRoberta", "ModernBert", "Camembert", "Distil", "MPNet", "Deberta", "Electra", "Nomic", "New", "Gte", "JinaBert", "Eurobert"}

// poolOf is the pooling of an architecture whose files name none: that of sentence-transformers for encoders, and the last
// token's for decoders.
func poolOf(architecture string) engine.Pool {
	for _, prefix := range encoders {
		if strings.HasPrefix(architecture, prefix) {
			return engine.PoolMean
		}
	}
	return engine.PoolLast
}
