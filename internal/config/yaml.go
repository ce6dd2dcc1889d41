package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxNesting bounds lists and maps inside each other on one line. The parser's time grows with its square.
const maxNesting = 64

var errNesting = errors.New("lists or maps are nested too deeply")

// parseYAML reads YAML, of which JSON is a part. Nothing in it is expanded, so that aliases multiply nothing.
func parseYAML(text []byte) (*ast.File, error) {
	tokens := lexer.Tokenize(string(text))
	depth, line, run := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, run = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			run++
		}
		if depth > maxNesting || run > maxNesting {
			return nil, fmt.Errorf("line %d: %w", line, errNesting)
		}
	}
	return parser.Parse(tokens, 0)
}

// mappingOf returns the pairs of a map, which the parser gives in two forms.
func mappingOf(n ast.Node) ([]*ast.MappingValueNode, error) {
	switch n := n.(type) {
	case nil:
		return nil, nil
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	case *ast.CommentGroupNode, *ast.NullNode:
		return nil, nil
	}
	return nil, fmt.Errorf("line %d: invalid configuration: want a map of parameters", n.GetToken().Position.Line)
}

// scalarOf returns a value as a user would give it to a flag; a list joins with commas.
func scalarOf(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.NullNode:
		return "", nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.SequenceNode:
		var items []string
		for _, v := range n.Values {
			item, err := scalarOf(v)
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		return strings.Join(items, ","), nil
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "", fmt.Errorf("anchors, aliases and tags are not supported: write the value out")
	case ast.ScalarNode:
		return n.GetToken().Value, nil
	}
	return "", fmt.Errorf("invalid value: want a value or a list of values")
}
