package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"
)

// ConfigEnv names the YAML file when --config is not given.
const ConfigEnv = envPrefix + "CONFIG"

// Loaded is a configuration and where each value came from.
type Loaded struct {
	Config
	Origin   map[string]string // by parameter name: default, a file and line, a variable, a flag
	Warnings []string
}

// Load composes a configuration: defaults, then the YAML file, then the environment (as os.Environ
// gives it), then the flags that Flags registered. It does not check values against each other.
func Load(file string, environ []string, flags *pflag.FlagSet) (*Loaded, error) {
	l := &Loaded{Config: Default(), Origin: map[string]string{}}
	for i := range Params {
		l.Origin[Params[i].Name] = "default"
	}
	if file != "" {
		if err := l.loadFile(file); err != nil {
			return nil, err
		}
	}
	if err := l.loadEnv(environ); err != nil {
		return nil, err
	}
	if flags != nil {
		if err := l.loadFlags(flags); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Loaded) set(p *Param, text, origin string) error {
	if err := set(p.field(&l.Config), text); err != nil {
		return fmt.Errorf("%s: %s: %w", origin, p.Name, err)
	}
	l.Origin[p.Name] = origin
	return nil
}

func (l *Loaded) loadFile(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, doc := range tree.Docs {
		pairs, err := mapping(doc.Body)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, pair := range pairs {
			origin := fmt.Sprintf("%s:%d", file, pair.Key.GetToken().Position.Line)
			key := strings.ReplaceAll(pair.Key.GetToken().Value, "_", "-")
			p := Find(key)
			if p == nil {
				return fmt.Errorf("%s: unknown key %q; the nearest is %q", origin, key, nearest(key, names()))
			}
			if strings.HasPrefix(l.Origin[p.Name], file+":") {
				return fmt.Errorf("%s: %s was set before, at %s", origin, key, l.Origin[p.Name])
			}
			value, err := scalar(pair.Value)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", origin, key, err)
			}
			if err := l.set(p, value, origin); err != nil {
				return err
			}
		}
	}
	return nil
}

// mapping returns the pairs of a map, which the parser gives in two forms.
func mapping(n ast.Node) ([]*ast.MappingValueNode, error) {
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
	return nil, fmt.Errorf("line %d: want a map of parameters", n.GetToken().Position.Line)
}

// scalar returns a value as a user would give it to a flag; a list joins with commas.
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.NullNode:
		return "", nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.SequenceNode:
		var items []string
		for _, v := range n.Values {
			item, err := scalar(v)
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		return strings.Join(items, ","), nil
	case ast.ScalarNode:
		return n.GetToken().Value, nil
	}
	return "", fmt.Errorf("want a value or a list of values")
}

func (l *Loaded) loadEnv(environ []string) error {
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || name == ConfigEnv || strings.HasPrefix(name, ChildEnvPrefix) {
			continue
		}
		i := slices.IndexFunc(Params, func(p Param) bool { return p.Env() == name })
		if i < 0 {
			var all []string
			for i := range Params {
				all = append(all, Params[i].Env())
			}
			return fmt.Errorf("unknown variable %s; the nearest is %s", name, nearest(name, all))
		}
		if err := l.set(&Params[i], value, "$"+name); err != nil {
			return err
		}
	}
	return nil
}

// ChildEnvPrefix begins variables between the supervisor and its children; they are no parameters.
const ChildEnvPrefix = envPrefix + "CHILD_"

// Environ gives the parameters of a role that differ from their defaults as environment variables.
func (c *Config) Environ(r Role) []string {
	var env []string
	standard := Default()
	for i := range Params {
		p := &Params[i]
		if p.Roles&r == 0 {
			continue
		}
		if text := show(p.field(c)); text != show(p.field(&standard)) {
			env = append(env, p.Env()+"="+text)
		}
	}
	return env
}

func names() []string {
	var all []string
	for i := range Params {
		all = append(all, Params[i].Name)
	}
	return all
}
