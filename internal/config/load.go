package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"

	"github.com/prefillonly/prefillonly/internal/regular"
)

// ConfigEnv names the YAML file when --config is not given.
const ConfigEnv = envPrefix + "CONFIG"

// testDataEnv names the directory of data for tests, whose environment servers inherit; it is no parameter.
const testDataEnv = envPrefix + "DATA"

// maxFile bounds the bytes of a YAML file.
const maxFile = 16 << 20

// Loaded is a configuration and where each value came from.
type Loaded struct {
	Config
	Origin   map[string]string // by parameter name: default, a file and line, a variable, a flag
	Warnings []string

	modelLines []int // of the file, on which Models begin; nil where they are from elsewhere
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

func (l *Loaded) setParam(p *Param, text, origin string) error {
	if err := setValue(p.field(&l.Config), text); err != nil {
		return fmt.Errorf("%s: %s: %w", origin, p.Name, err)
	}
	if p.Name == "models" {
		l.modelLines = nil
	}
	l.Origin[p.Name] = origin
	return nil
}

// setNode is set for a value of the file.
func (l *Loaded) setNode(p *Param, n ast.Node, origin string) (err error) {
	if list, ok := p.field(&l.Config).(*modelList); ok && n.Type() == ast.SequenceType {
		if *list, l.modelLines, err = decodeModels(n); err != nil {
			return fmt.Errorf("%s: %s: %w", origin, p.Name, err)
		}
		l.Origin[p.Name] = origin
		return nil
	}
	text, err := scalarOf(n)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", origin, p.Name, err)
	}
	return l.setParam(p, text, origin)
}

// ModelOrigin says where the i-th of Models was given.
func (l *Loaded) ModelOrigin(i int) string {
	origin := l.Origin["models"]
	if file, _, ok := strings.Cut(origin, ":"); ok && i < len(l.modelLines) {
		origin = fmt.Sprintf("%s:%d", file, l.modelLines[i])
	}
	return fmt.Sprintf("models[%d] (%s)", i, origin)
}

func (l *Loaded) loadFile(file string) error {
	text, err := regular.ReadFile(file, maxFile)
	if err != nil {
		return err
	}
	tree, err := parseYAML(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, doc := range tree.Docs {
		pairs, err := mappingOf(doc.Body)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, pair := range pairs {
			origin := fmt.Sprintf("%s:%d", file, pair.Key.GetToken().Position.Line)
			key := strings.ReplaceAll(pair.Key.GetToken().Value, "_", "-")
			p := Find(key)
			if p == nil {
				return fmt.Errorf("%s: unknown key %q; the nearest is %q", origin, key, nearestWord(key, names()))
			}
			if strings.HasPrefix(l.Origin[p.Name], file+":") {
				return fmt.Errorf("%s: %s is set twice, first at %s", origin, key, l.Origin[p.Name])
			}
			if err := l.setNode(p, pair.Value, origin); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Loaded) loadEnv(environ []string) error {
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || name == ConfigEnv || name == testDataEnv || strings.HasPrefix(name, ChildEnvPrefix) {
			continue
		}
		i := slices.IndexFunc(Params, func(p Param) bool { return p.Env() == name })
		if i < 0 {
			var all []string
			for i := range Params {
				all = append(all, Params[i].Env())
			}
			return fmt.Errorf("unknown variable %s; the nearest is %s", name, nearestWord(name, all))
		}
		if err := l.setParam(&Params[i], text, "$"+name); err != nil {
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
		if text := showValue(p.field(c)); text != showValue(p.field(&standard)) {
			env = append(env, p.Env()+"="+text)
		}
	}
	return env
}

// Changed names the parameters, but those of models, that differ between two configurations.
func Changed(before, after *Config) (names []string) {
	for i := range Params {
		p := &Params[i]
		if p.Group != GroupModel && showValue(p.field(before)) != showValue(p.field(after)) {
			names = append(names, p.Name)
		}
	}
	return names
}

func names() []string {
	var all []string
	for i := range Params {
		all = append(all, Params[i].Name)
	}
	return all
}
