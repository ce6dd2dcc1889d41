package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// modelList is the models to serve.
type modelList []Model

// Set reads a list in YAML, of which JSON is a part, as String writes it.
func (l *modelList) Set(text string) (err error) {
	*l = nil
	if strings.TrimSpace(text) == "" {
		return nil
	}
	tree, err := parseYAML([]byte(text))
	if err != nil {
		return err
	}
	if len(tree.Docs) != 1 {
		return errNoList
	}
	*l, _, err = decodeModels(tree.Docs[0].Body)
	return err
}

// String is the list on one line; empty of no models.
func (l *modelList) String() string {
	var all []string
	for i := range *l {
		all = append(all, showModel(&(*l)[i]))
	}
	if all == nil {
		return ""
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// ModelsYAML is a file of a configuration that has these models alone.
func ModelsYAML(list []Model) string {
	var b strings.Builder
	b.WriteString("models:\n")
	for i := range list {
		b.WriteString("- " + showModel(&list[i]) + "\n")
	}
	return b.String()
}

var errNoList = fmt.Errorf(`want a list of models such as [{"path":"./A"},{"name":"b","path":"./B"}]`)

// decodeModels reads a list, and the line on which each of its models begins.
func decodeModels(n ast.Node) (list modelList, lines []int, err error) {
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
	pairs, err := mappingOf(n)
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
			return m, fmt.Errorf("line %d: unknown key %q; the nearest is %q", at.Position.Line, key, nearestWord(key, modelKeys()))
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
			text, err := scalarOf(item)
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
	case *Networks:
		return decodeNetworks(f, n)
	case *Drift:
		return decodeDrift(f, n)
	case *Overrides:
		return decodeOverrides(f, n)
	case *LoRAModules:
		return decodeLoRAModules(f, n)
	}
	text, err := scalarOf(n)
	if err != nil {
		return err
	}
	return setValue(field, text)
}

func decodeKeep(k *Keep, n ast.Node) error {
	want := fmt.Errorf("want always, on-demand, or {idle: 5m} for some time")
	if pairs, err := mappingOf(n); err == nil {
		if len(pairs) != 1 || pairs[0].Key.GetToken().Value != KeepIdle {
			return want
		}
		text, err := scalarOf(pairs[0].Value)
		if err != nil {
			return want
		}
		k.When = KeepIdle
		return setValue(&k.Idle, text)
	}
	text, err := scalarOf(n)
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

// showModel is the inverse of decode, on one line.
func showModel(m *Model) string {
	var b strings.Builder
	for i := range ModelParams {
		p := &ModelParams[i]
		text := p.text(m)
		if text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.Name + ": " + showField(p.field(m), text))
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
	case *float64, *Length, *Image, *Networks, *Drift, *Overrides, *LoRAModules:
		return text
	}
	return strconv.Quote(text)
}
