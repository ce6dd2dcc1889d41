package oip

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"testing"
)

// TestShapeIsTheDecoders: the keys in the decoder's tables are those of the schema, as often.
func TestShapeIsTheDecoders(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "request.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if _, ok := table.Type.(*ast.MapType); !ok {
			return true
		}
		for _, e := range table.Elts {
			key, err := strconv.Unquote(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			taken[key]++
		}
		return true
	})
	told := map[string]int{}
	var walk func(s schema)
	walk = func(s schema) {
		if items, ok := s["items"].(schema); ok {
			walk(items)
		}
		properties, _ := s["properties"].(schema)
		for key, of := range properties {
			told[key]++
			walk(of.(schema))
		}
	}
	walk(Shape())
	if !maps.Equal(taken, told) || len(taken) < 10 {
		t.Errorf("the decoder takes %v, the schema has %v", slices.Sorted(maps.Keys(taken)), slices.Sorted(maps.Keys(told)))
	}
}
