package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Overrides are keys that a checkpoint's config.json lacks, as vLLM's --hf-overrides has them: those that make a ranker of a
// language model that says yes or no.
type Overrides struct {
	Architectures       []string // as vLLM wants it beside the others; it changes nothing here
	ClassifierFromToken []string // the tokens that say no and yes
	Method              string
	Original            bool // pairs are read by the text that Qwen3-Reranker was trained on
}

// overrideKeys are the keys of hf-overrides, with the pointer to set.
var overrideKeys = []mapKey[Overrides]{
	{"architectures", func(o *Overrides) any { return &o.Architectures }},
	{"classifier_from_token", func(o *Overrides) any { return &o.ClassifierFromToken }},
	{"method", func(o *Overrides) any { return &o.Method }},
	{"is_original_qwen3_reranker", func(o *Overrides) any { return &o.Original }},
}

// String is o as a map of YAML on one line; empty of the zero value.
func (o *Overrides) String() string {
	var parts []string
	for _, k := range overrideKeys {
		switch f := k.field(o).(type) {
		case *[]string:
			var items []string
			for _, item := range *f {
				items = append(items, strconv.Quote(item))
			}
			if items != nil {
				parts = append(parts, k.name+": ["+strings.Join(items, ", ")+"]")
			}
		case *string:
			if *f != "" {
				parts = append(parts, k.name+": "+strconv.Quote(*f))
			}
		case *bool:
			if *f {
				parts = append(parts, k.name+": true")
			}
		}
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Set reads a map of YAML, of which JSON is a part, as String writes it.
func (o *Overrides) Set(text string) error {
	*o = Overrides{}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	tree, err := parseYAML([]byte(text))
	if err != nil {
		return err
	}
	if len(tree.Docs) != 1 {
		return errNoOverrides
	}
	return decodeOverrides(o, tree.Docs[0].Body)
}

var errNoOverrides = fmt.Errorf(`want a map such as {"classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true}`)

func decodeOverrides(o *Overrides, n ast.Node) error {
	pairs, err := mappingOf(n)
	if err != nil {
		return errNoOverrides
	}
	var names []string
	for _, k := range overrideKeys {
		names = append(names, k.name)
	}
	*o = Overrides{}
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		at := slices.Index(names, key)
		if at < 0 {
			return fmt.Errorf("unknown key %q: want one of %s", key, strings.Join(names, ", "))
		}
		if err := decodeField(overrideKeys[at].field(o), pair.Value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}
