package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// The pipelines: models of networks, with work of the processors before, between and behind their passes.
const (
	PipelineOCR    = "ocr"    // the text of pictures
	PipelineSpeech = "speech" // the text of sound
)

// Networks are the files of a pipeline's networks; empty: found by their names.
type Networks struct {
	Detect    string // where lines of text are
	Direct    string // whether a line is upside down
	Recognize string // symbols, step by step
	Silence   string // where nobody speaks
}

// networkKeys are the keys of networks, with the pointer to set.
var networkKeys = []mapKey[Networks]{
	{"detect", func(n *Networks) any { return &n.Detect }},
	{"direct", func(n *Networks) any { return &n.Direct }},
	{"recognize", func(n *Networks) any { return &n.Recognize }},
	{"silence", func(n *Networks) any { return &n.Silence }},
}

// Part is what a network of a pipeline is for.
type Part struct {
	Key      string // of Networks
	Word     string // in the name of its file; empty: any
	Optional bool
	Named    bool   // it is there if the configuration names its file
	Decoder  string // of the network's outputs
	Memory   Bytes  // for its passes, unless the pipeline says; 0: as other networks

	File func(*Networks) *string
}

// Pipelines are the networks of each pipeline. The pool knows the first one by the pipeline's name, others by that, a slash and their key.
var Pipelines = map[string][]Part{
	PipelineOCR: {
		{Key: "detect", Word: "det", Memory: 1536 << 20, File: func(n *Networks) *string { return &n.Detect }},
		{Key: "direct", Word: "cls", Optional: true, File: func(n *Networks) *string { return &n.Direct }},
		{Key: "recognize", Word: "rec", Decoder: DecoderCTC, Memory: 512 << 20, File: func(n *Networks) *string { return &n.Recognize }},
	},
	PipelineSpeech: {
		{Key: "recognize", Decoder: DecoderCTC, Memory: 512 << 20, File: func(n *Networks) *string { return &n.Recognize }},
		{Key: "silence", Optional: true, Named: true, File: func(n *Networks) *string { return &n.Silence }},
	},
}

// Has says whether a file's name has the word of the part, between other characters than letters.
func (p *Part) Has(file string) bool {
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	words := strings.FieldsFunc(base, func(c rune) bool { return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') })
	return p.Word == "" || slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, p.Word) })
}

// NetworkName is the pool's name of the i-th network of the pipeline of a name.
func NetworkName(pipeline string, i int, part Part) string {
	if i == 0 {
		return pipeline
	}
	return pipeline + "/" + part.Key
}

// String is n as a map of YAML on one line; empty of the zero value.
func (n *Networks) String() string {
	var parts []string
	for _, k := range networkKeys {
		if file := k.field(n).(*string); *file != "" {
			parts = append(parts, k.name+": "+strconv.Quote(*file))
		}
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func decodeNetworks(to *Networks, n ast.Node) error {
	return decodeMap(to, n, networkKeys, "{detect: det.onnx, recognize: rec.onnx}")
}

// checkPipeline says what does not go with a pipeline, or without one.
func (m *Model) checkPipeline() error {
	if m.Pipeline == "" {
		switch {
		case m.Networks != Networks{}:
			return fmt.Errorf("networks are for a pipeline: set pipeline to ocr or speech")
		case m.Alphabet != "":
			return fmt.Errorf("alphabet is for a pipeline: set pipeline to ocr or speech")
		}
		return nil
	}
	var keys []string
	left := m.Networks
	for _, part := range Pipelines[m.Pipeline] {
		keys = append(keys, part.Key)
		*part.File(&left) = ""
	}
	switch {
	case left != Networks{}:
		return fmt.Errorf("invalid networks %s: pipeline %s has %s", left.String(), m.Pipeline, strings.Join(keys, ", "))
	case m.Task == TaskGenerate:
		return fmt.Errorf("invalid task generate: pipeline %s is of networks", m.Pipeline)
	}
	return nil
}

// mapKey is a key of a map of YAML, with the pointer to set.
type mapKey[Of any] struct {
	name  string
	field func(*Of) any
}

// decodeMap sets what a map has keys for; want is an example of one.
func decodeMap[Of any](to *Of, n ast.Node, keys []mapKey[Of], want string) error {
	pairs, err := mappingOf(n)
	if err != nil {
		return fmt.Errorf("want a map such as %s", want)
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	*to = *new(Of)
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		at := slices.Index(names, key)
		if at < 0 {
			return fmt.Errorf("unknown key %q; the nearest is %q", key, nearestWord(key, names))
		}
		text, err := scalarOf(pair.Value)
		if err == nil {
			err = setValue(keys[at].field(to), text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}
