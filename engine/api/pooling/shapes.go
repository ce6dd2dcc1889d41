package pooling

import (
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// bodySchemas is what a request's struct takes.
func bodySchemas[Of any]() []fields.Schema {
	return []fields.Schema{fields.Body(reflect.TypeFor[Of]())}
}

// TextsBody and IDsBody are the bodies of TEI's /tokenize and /decode, and TokensAnswer what the former answers.
var (
	TextsBody    = fields.Body(reflect.TypeFor[textsBody]())
	IDsBody      = fields.Body(reflect.TypeFor[idsBody]())
	TokensAnswer = fields.ListOf(fields.ListOf(fields.Answer(reflect.TypeFor[Token]())))
)

// Shapes are what fields are that are decoded by hand, by the names that tags have for them; others are those of package api.
func Shapes() map[string]fields.Schema {
	text, texts := fields.Schema{"type": "string"}, fields.Schema{"type": "array", "items": fields.Schema{"type": "string"}, "minItems": 1, "maxItems": MaxInputs}
	part := fields.Schema{"type": "object", "properties": fields.Schema{"type": fields.Schema{"const": "text"}, "text": text}, "required": []string{"text"}}
	form := fields.AnyOf(text,
		fields.Schema{"type": "object", "properties": fields.Schema{"text": text}, "required": []string{"text"}},
		fields.Schema{"type": "object", "properties": fields.Schema{"content": fields.Schema{"type": "array", "items": part, "minItems": 1}}, "required": []string{"content"}})
	tokens := fields.Schema{"type": "array", "items": api.TokenSchema(), "minItems": 1}
	lists := fields.Schema{"type": "array", "items": tokens, "minItems": 1, "maxItems": MaxInputs}
	sequence := fields.Schema{"type": "array", "items": text, "minItems": 1, "maxItems": 2}
	return map[string]fields.Schema{
		"Inputs":       fields.AnyOf(text, texts, tokens, lists),
		"Texts":        fields.AnyOf(form, fields.Schema{"type": "array", "items": fields.RefTo("TextForm"), "minItems": 1, "maxItems": MaxInputs}),
		"TextForm":     form,
		"Strings":      fields.AnyOf(text, texts),
		"TokenLists":   fields.AnyOf(tokens, lists),
		"TextOrTokens": fields.AnyOf(text, tokens),
		"Labels":       fields.Schema{"type": "array", "items": api.TokenSchema(), "minItems": 1, "maxItems": MaxLabels},
		"Sequences":    fields.AnyOf(text, sequence, fields.Schema{"type": "array", "items": sequence, "minItems": 1, "maxItems": MaxInputs}),
	}
}

// What endpoints answer.
var (
	word, number, integer = fields.Schema{"type": "string"}, fields.Schema{"type": "number"}, fields.Schema{"type": "integer"}
	numbers               = fields.ListOf(number)
	vectorText            = fields.AnyOf(numbers, word)
	usage                 = fields.Answer(reflect.TypeFor[api.Usage]())
	reranked              = recordSchema("id", word, "object", fields.Schema{"const": "rerank"}, "created", integer, "model", word, "results", rankedList, "usage", usage)
	rankedList            = fields.ListOf(withField(recordSchema("index", integer, "relevance_score", number), "document", recordSchema("text", word)))
	cohereRanked          = recordSchema("id", word, "results", rankedList, "meta", fields.Schema{"type": "object"})
	cohereVectors         = recordSchema("id", word, "response_type", word, "embeddings", fields.AnyOf(fields.ListOf(numbers), fields.Schema{"type": "object"}), "texts", fields.ListOf(word), "meta", fields.Schema{"type": "object"})
	labelScores           = recordSchema("object", fields.Schema{"const": "scoring"}, "scores", fields.ListOf(numbers), "model", word, "usage", usage)
	rankings              = recordSchema("rankings", fields.ListOf(recordSchema("index", integer, "logit", number)), "usage", usage)
	classified            = listSchema(recordSchema("index", integer, "label", word, "probs", numbers, "num_classes", integer))
	predictions           = fields.ListOf(recordSchema("score", number, "label", word))
	teiRanked             = fields.ListOf(withField(recordSchema("index", integer, "score", number), "text", word))
)

// recordSchema is an object of fields, all of which it has: names with schemas between them.
func recordSchema(of ...any) fields.Schema {
	properties, required := fields.Schema{}, []string{}
	for i := 0; i < len(of); i += 2 {
		name := of[i].(string)
		properties[name], required = of[i+1], append(required, name)
	}
	return fields.Schema{"type": "object", "properties": properties, "required": required}
}

// withField is a record that may have one field more.
func withField(r fields.Schema, name string, of fields.Schema) fields.Schema {
	r["properties"].(fields.Schema)[name] = of
	return r
}

func listSchema(element fields.Schema) fields.Schema {
	return recordSchema("id", word, "object", fields.Schema{"const": "list"}, "created", integer, "model", word, "data", fields.ListOf(element), "usage", usage)
}

// indexedListSchema is a list of elements that have an index, and a value under a name.
func indexedListSchema(name string, value fields.Schema) fields.Schema {
	return listSchema(recordSchema("index", integer, "object", word, name, value))
}
