package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// ModelParam is one key of a model in the list of models.
type ModelParam struct {
	Name    string
	Value   string   // what the help calls the value
	Choices []string // the values there are; nil for any
	Help    string

	field func(*Model) any // the pointer to set
}

// ModelParams is the table of the keys of a model.
var ModelParams = []ModelParam{
	{
		Name: "path", Value: "DIR|ID|FILE",
		Help:  "directory of a Hugging Face checkpoint, the name of one in the hub (org/name or org/name@revision), which is downloaded at the start unless it is in the local Hugging Face cache, or the .onnx file of a network, or a directory with one; must be given",
		field: func(m *Model) any { return &m.Path },
	}, {
		Name: "revision", Value: "REVISION",
		Help:  "branch, tag or commit of a model that is given by its name in the hub; default: main",
		field: func(m *Model) any { return &m.Revision },
	}, {
		Name: "name", Value: "NAME",
		Help:  "name that requests give, or a list of them; default: the directory's or file's own name, or the ID",
		field: func(m *Model) any { return &m.Names },
	}, {
		Name: "task", Value: "TASK", Choices: []string{TaskGenerate, TaskInfer},
		Help:  "what the model is asked for: generate, the next tokens and their probabilities, of an LLM; infer, tensors, of a network; default: what its files are",
		field: func(m *Model) any { return &m.Task },
	}, {
		Name: "devices", Value: "DEVICE",
		Help:  "executors that run it, by their devices, as --device has them: cuda:0,1; default: all",
		field: func(m *Model) any { return &m.Devices },
	}, {
		Name: "keep", Value: "WHEN",
		Help:  "always: it is loaded first and its weights never leave the device; on-demand: they leave when others need the room; {idle: 5m}: also after so long without a request; default: always for one model, on-demand for several",
		field: func(m *Model) any { return &m.Keep },
	}, {
		Name: "cache-share", Value: "SHARE",
		Help:  "share of the prefix cache's memory that is for this model; default: an equal part of what the others leave",
		field: func(m *Model) any { return &m.CacheShare },
	}, {
		Name: "max-model-len", Value: "TOKENS",
		Help:  "longest prompt plus answer; default: --max-model-len",
		field: func(m *Model) any { return &m.MaxModelLen },
	}, {
		Name: "chat-template", Value: "FILE",
		Help:  "Jinja chat template to use in place of the checkpoint's own",
		field: func(m *Model) any { return &m.ChatTemplate },
	}, {
		Name: "hf-overrides", Value: "MAP",
		Help:  "keys that the checkpoint's config.json lacks, as vLLM has them: classifier_from_token, the tokens that say no and yes, makes a language model a ranker; is_original_qwen3_reranker: true, it is one that reads pairs as Qwen3-Reranker does",
		field: func(m *Model) any { return &m.Overrides },
	}, {
		Name: "profile", Value: "FILE",
		Help:  "cost model of this model on its device; default: the one that `prefillonly profile` has stored, if any",
		field: func(m *Model) any { return &m.Profile },
	}, {
		Name: "image", Value: "MAP",
		Help:  "how pictures become a network's input: mean and scale of a channel's values of 0 to 255, (v - mean) / scale, each one number or one a channel; order: RGB or BGR; layout: NCHW or NHWC, default: by the input's shape; size: [height, width], default: the input's; letterbox: the grey, 0 to 255, around a picture that is not to be stretched",
		field: func(m *Model) any { return &m.Image },
	}, {
		Name: "decoder", Value: "NAME",
		Help:  "what a network's outputs mean, for `prefillonly video detect`: yolox and others",
		field: func(m *Model) any { return &m.Decoder },
	}, {
		Name: "work-memory", Value: "SIZE",
		Help:  "memory that a pass of a network may compute in, which bounds its inputs; default: what inputs of its own shapes and their gradient take, and where batch or shapes are free at least four times what a frame takes, and 16MiB",
		field: func(m *Model) any { return &m.WorkMemory },
	},
}

// text is the value that m has for the key, in the form of a list of models; empty where it is the default.
func (p *ModelParam) text(m *Model) string {
	switch f := p.field(m).(type) {
	case *[]string:
		return strings.Join(*f, ",")
	case *Keep:
		return f.When
	case *float64:
		if *f == 0 {
			return ""
		}
		return show(f)
	case *Length:
		if *f == 0 {
			return ""
		}
		return show(f)
	case *Bytes:
		if *f == 0 {
			return ""
		}
		return show(f)
	default:
		return show(f)
	}
}

// parseModels reads a list of models in YAML, of which JSON is a part.
func parseModels(text string) (list []Model, lines []int, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil, nil
	}
	tree, err := parse([]byte(text))
	if err != nil {
		return nil, nil, err
	}
	if len(tree.Docs) != 1 {
		return nil, nil, errNoList
	}
	return decodeModels(tree.Docs[0].Body)
}

var errNoList = fmt.Errorf(`want a list of models such as [{"path":"./A"},{"name":"b","path":"./B"}]`)

// decodeModels reads the list and the line on which each of them begins.
func decodeModels(n ast.Node) (list []Model, lines []int, err error) {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, nil, errNoList
	}
	for i, item := range sequence.Values {
		m, err := decodeModel(item)
		if err != nil {
			return nil, nil, fmt.Errorf("model %d: %w", i+1, err)
		}
		list, lines = append(list, m), append(lines, item.GetToken().Position.Line)
	}
	return list, lines, nil
}

func decodeModel(n ast.Node) (m Model, err error) {
	pairs, err := mapping(n)
	if err != nil {
		return m, err
	}
	set := map[string]bool{}
	for _, pair := range pairs {
		at := pair.Key.GetToken()
		key := strings.ReplaceAll(at.Value, "_", "-")
		p := findModelParam(key)
		switch {
		case p == nil:
			return m, fmt.Errorf("line %d: unknown key %q; the nearest is %q", at.Position.Line, key, nearest(key, modelKeys()))
		case set[key]:
			return m, fmt.Errorf("line %d: %s is set twice", at.Position.Line, key)
		}
		set[key] = true
		if err := decodeField(p.field(&m), pair.Value); err != nil {
			return m, fmt.Errorf("line %d: %s: %w", at.Position.Line, key, err)
		}
	}
	return m, nil
}

// decodeField sets a field from a value. A list may be of one text, and keep may be a map.
func decodeField(field any, n ast.Node) error {
	switch f := field.(type) {
	case *[]string:
		items := []ast.Node{n}
		if sequence, ok := n.(*ast.SequenceNode); ok {
			items = sequence.Values
		}
		for _, item := range items {
			text, err := scalar(item)
			if err != nil {
				return err
			}
			*f = append(*f, text)
		}
		return nil
	case *Keep:
		return decodeKeep(f, n)
	case *Image:
		return decodeImage(f, n)
	case *Overrides:
		return decodeOverrides(f, n)
	}
	text, err := scalar(n)
	if err != nil {
		return err
	}
	return set(field, text)
}

func decodeKeep(k *Keep, n ast.Node) error {
	want := fmt.Errorf("want always, on-demand, or {idle: 5m} for some time")
	if pairs, err := mapping(n); err == nil {
		if len(pairs) != 1 || pairs[0].Key.GetToken().Value != KeepIdle {
			return want
		}
		text, err := scalar(pairs[0].Value)
		if err != nil {
			return want
		}
		k.When = KeepIdle
		return set(&k.Idle, text)
	}
	text, err := scalar(n)
	if err != nil || text != KeepAlways && text != KeepOnDemand {
		return want
	}
	k.When = text
	return nil
}

func findModelParam(name string) *ModelParam {
	for i := range ModelParams {
		if ModelParams[i].Name == name {
			return &ModelParams[i]
		}
	}
	return nil
}

func modelKeys() (all []string) {
	for i := range ModelParams {
		all = append(all, ModelParams[i].Name)
	}
	return all
}

// showModel is the inverse of decodeModel, on one line.
func showModel(m *Model) string {
	var b strings.Builder
	for i := range ModelParams {
		p := &ModelParams[i]
		value := p.text(m)
		if value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.Name + ": " + showField(p.field(m), value))
	}
	return "{" + b.String() + "}"
}

func showField(field any, text string) string {
	switch f := field.(type) {
	case *[]string:
		if len(*f) > 1 {
			var items []string
			for _, item := range *f {
				items = append(items, strconv.Quote(item))
			}
			return "[" + strings.Join(items, ", ") + "]"
		}
	case *Keep:
		if f.When == KeepIdle {
			return "{" + KeepIdle + ": " + f.Idle.String() + "}"
		}
	case *float64, *Length, *Image, *Overrides:
		return text
	}
	return strconv.Quote(text)
}

// showModels is the inverse of parseModels, on one line.
func showModels(list []Model) string {
	var all []string
	for i := range list {
		all = append(all, showModel(&list[i]))
	}
	if all == nil {
		return ""
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// ModelsYAML is a file that Load reads and that gives the models of the list alone.
func ModelsYAML(list []Model) string {
	var b strings.Builder
	b.WriteString("models:\n")
	for i := range list {
		b.WriteString("- " + showModel(&list[i]) + "\n")
	}
	return b.String()
}
