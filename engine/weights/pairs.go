package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/prefillonly/prefillonly/internal/regular"
)

// Pairs says how a tokenizer marks the second text of a pair for models with token types. The types themselves are lost
// where a prompt is its tokens alone, and are told from those again: where Typed, those behind the first Separator are of
// type 1, and all others of type 0. A text that spells the separator out is taken for a pair.
type Pairs struct {
	Typed     bool
	Separator uint32
}

// maxTokenizer is the most bytes of a tokenizer.json; large vocabularies take 20 million.
const maxTokenizer = 128 << 20

// ReadPairs reads what the tokenizer's files in a checkpoint's directory say of pairs: nothing where there are none, or
// where the tokenizer gives no types.
func ReadPairs(dir string) (Pairs, error) {
	var config struct {
		Inputs []string `json:"model_input_names"`
	}
	var tokenizer struct {
		Processor processor `json:"post_processor"`
	}
	for _, f := range []struct {
		name string
		into any
	}{{"tokenizer_config.json", &config}, {"tokenizer.json", &tokenizer}} {
		raw, err := regular.ReadFile(filepath.Join(dir, f.name), maxTokenizer)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(raw, f.into)
		}
		if err != nil {
			return Pairs{}, fmt.Errorf("%s: %s: %w", dir, f.name, err)
		}
	}
	if config.Inputs != nil && !slices.Contains(config.Inputs, "token_type_ids") {
		return Pairs{}, nil
	}
	return tokenizer.Processor.pairs(), nil
}

// processor is a tokenizer's post-processor: BertProcessing, or TemplateProcessing.
type processor struct {
	Type string            `json:"type"`
	Sep  []json.RawMessage `json:"sep"` // token and id
	Pair []struct {
		Special  *piece `json:"SpecialToken"`
		Sequence *piece `json:"Sequence"`
	} `json:"pair"`
	Specials map[string]struct {
		IDs []uint32 `json:"ids"`
	} `json:"special_tokens"`
	Processors []processor `json:"processors"` // of type Sequence
}

type piece struct {
	ID   string `json:"id"`
	Type int    `json:"type_id"`
}

func (p *processor) pairs() (found Pairs) {
	switch p.Type {
	case "Sequence":
		for i := range p.Processors {
			if found = p.Processors[i].pairs(); found.Typed {
				return found
			}
		}
	case "BertProcessing":
		if len(p.Sep) == 2 && json.Unmarshal(p.Sep[1], &found.Separator) == nil {
			found.Typed = true
		}
	case "TemplateProcessing":
		return p.template()
	}
	return found
}

// template finds the special token before the second text of a pair, if that is of type 1.
func (p *processor) template() (found Pairs) {
	for i := 1; i < len(p.Pair); i++ {
		second, before := p.Pair[i].Sequence, p.Pair[i-1].Special
		if second == nil || second.ID != "B" || second.Type != 1 || before == nil {
			continue
		}
		if ids := p.Specials[before.ID].IDs; len(ids) > 0 {
			found = Pairs{true, ids[len(ids)-1]}
		}
	}
	return found
}
