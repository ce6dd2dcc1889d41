package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Model is one of the models to serve. The table in modelparams.go says what each field means.
type Model struct {
	Names        []string // the first is the executors' name for it; empty: after Path
	Path         string
	Revision     string // of a model of the hub; empty: main
	Task         string
	Devices      string // as Config.Device has them; empty: all
	Keep         Keep
	CacheShare   float64 // 0: an equal part of what the others leave
	MaxModelLen  Length
	ChatTemplate string
	Overrides    Overrides
	Profile      string
	Image        Image  // of a network that takes pictures
	Decoder      string // of a network's outputs
	WorkMemory   Bytes  // of a network; 0: as it needs
}

// The tasks of models, which their files decide.
const (
	TaskGenerate = "generate" // of an LLM that is asked for its next tokens
	TaskInfer    = "infer"    // of a network that is asked for tensors
)

// Keep says when a model's weights may leave a device. The zero value is KeepAlways for one model, and
// KeepOnDemand for several.
type Keep struct {
	When string        // one of the constants below
	Idle time.Duration // with KeepIdle
}

// When a model's weights may leave a device.
const (
	KeepAlways   = "always"    // never
	KeepOnDemand = "on-demand" // when others need the room
	KeepIdle     = "idle"      // also after some time without a request
)

// maxName bounds the bytes of a model's name: it stands in every answer and in every line of its metrics.
const maxName = 256

// Serving lists the models to serve, complete with what was left to the defaults: those of models, or the one of
// model. Only names, paths and tasks may still be empty.
func (c *Config) Serving() []Model {
	list := slices.Clone(c.Models)
	if len(list) == 0 {
		list = []Model{{Names: c.ServedModelName, Path: c.Model, Revision: c.Revision, ChatTemplate: c.ChatTemplate, Overrides: c.Overrides, Profile: c.Profile}}
	}
	for i := range list {
		m := &list[i]
		if m.MaxModelLen == 0 {
			m.MaxModelLen = c.MaxModelLen
		}
		switch {
		case m.Keep.When != "":
		case len(list) == 1:
			m.Keep.When = KeepAlways
		default:
			m.Keep.When = KeepOnDemand
		}
	}
	return list
}

// SetModels makes list, which Serving has given, the models to serve.
func (c *Config) SetModels(list []Model) {
	c.Models, c.Model, c.Revision, c.ServedModelName, c.ChatTemplate, c.Overrides, c.Profile, c.MaxModelLen = list, "", "", nil, "", Overrides{}, "", 0
}

// HostedOn says that executors on a device (one of Devices) run the model.
func (c *Config) HostedOn(m *Model, device string) bool {
	kind, _, _ := strings.Cut(device, ":")
	if m.Devices == "" || m.Devices == kind {
		return true
	}
	own, wanted := gpusOf(device, c.Ranks), gpusOf(m.Devices, c.Ranks)
	return own != nil && !slices.ContainsFunc(own, func(gpu string) bool { return !slices.Contains(wanted, gpu) })
}

// Arguments makes the arguments of a command the models to serve, each PATH or NAME=PATH. Like a flag they
// replace what the environment and the file say.
func (l *Loaded) Arguments(args []string) {
	switch len(args) {
	case 0:
		return
	case 1:
		l.Models, l.Origin["models"] = nil, "default"
		var names []string
		if names, l.Model = splitArgument(args[0]); names != nil {
			l.ServedModelName, l.Origin["served-model-name"] = names, "the argument"
		}
		l.Origin["model"] = "the argument"
		return
	}
	l.Model, l.Origin["model"] = "", "default"
	l.Models, l.modelLines, l.Origin["models"] = nil, nil, "the arguments"
	for _, arg := range args {
		names, path := splitArgument(arg)
		l.Models = append(l.Models, Model{Names: names, Path: path})
	}
}

// splitArgument takes NAME=PATH apart. What is a directory as a whole has no name.
func splitArgument(arg string) (names []string, path string) {
	name, path, named := strings.Cut(arg, "=")
	if !named || isDir(arg) {
		return nil, arg
	}
	return []string{name}, path
}

// validateModels checks the models of a list, and that model and models are not both given.
func (l *Loaded) validateModels() error {
	if len(l.Models) == 0 {
		return checkNames("served-model-name ("+l.Origin["served-model-name"]+")", l.ServedModelName, map[string]string{})
	}
	for _, p := range []string{"model", "revision", "served-model-name", "chat-template", "hf-overrides", "profile"} {
		if o := l.Origin[p]; show(Find(p).field(&l.Config)) != "" {
			return fmt.Errorf("%s (%s) is for one model, and models (%s) lists %d: say it there, or leave one of the two out", p, o, l.Origin["models"], len(l.Models))
		}
	}
	taken := map[string]string{}
	for i := range l.Models {
		if err := l.validateModel(i, taken); err != nil {
			return err
		}
	}
	return l.validateShares()
}

// validateModel checks the i-th model; taken has the names of those before it, and who has them.
func (l *Loaded) validateModel(i int, taken map[string]string) error {
	m, where := &l.Models[i], l.ModelOrigin(i)
	if m.Path == "" {
		return fmt.Errorf("%s: path is missing: the directory of a checkpoint, or its name in the Hugging Face hub", where)
	}
	if err := checkNames(where, m.Names, taken); err != nil {
		return err
	}
	for j := range ModelParams {
		p := &ModelParams[j]
		if value := p.text(m); p.Choices != nil && value != "" && !slices.Contains(p.Choices, value) {
			return fmt.Errorf("%s: %s is %q, want %s", where, p.Name, value, strings.Join(p.Choices, " or "))
		}
	}
	switch {
	case !(m.CacheShare >= 0 && m.CacheShare <= 1):
		return fmt.Errorf("%s: cache-share is %v, want 0 to 1", where, m.CacheShare)
	case m.Keep.When == KeepIdle && m.Keep.Idle <= 0:
		return fmt.Errorf("%s: keep is idle for %v, want more than 0", where, m.Keep.Idle)
	case m.Devices != "" && !isDevice(m.Devices, l.Ranks):
		return fmt.Errorf("%s: devices is %q, want what --device takes: cpu, cuda, or GPUs like cuda:0,1", where, m.Devices)
	}
	if err := m.Image.check(); err != nil {
		return fmt.Errorf("%s: image: %w", where, err)
	}
	for _, file := range []struct{ key, path string }{{"chat-template", m.ChatTemplate}, {"profile", m.Profile}} {
		if err := exists(file.path); err != nil {
			return fmt.Errorf("%s: %s: %w", where, file.key, err)
		}
	}
	return nil
}

// validateShares checks that models on a device together have no more than all of the prefix cache's memory.
func (l *Loaded) validateShares() error {
	for _, device := range l.Devices() {
		sum := 0.0
		for i := range l.Models {
			if m := &l.Models[i]; l.HostedOn(m, device) {
				sum += m.CacheShare
			}
			if sum > 1+1e-9 {
				return fmt.Errorf("%s: cache-share: the shares of models on %s make %.3g up to here, want at most 1", l.ModelOrigin(i), device, sum)
			}
		}
	}
	return nil
}

// CheckNames refuses names that two models have. Names that were left empty are known only when the paths are.
func CheckNames(list []Model) error {
	taken := map[string]string{}
	for i := range list {
		if err := checkNames(fmt.Sprintf("model %d (%s)", i+1, list[i].Path), list[i].Names, taken); err != nil {
			return fmt.Errorf("%w; give it another with NAME=PATH, or name in models", err)
		}
	}
	return nil
}

// checkNames checks a model's names; taken has those of others, and who has them.
func checkNames(where string, names []string, taken map[string]string) error {
	for _, name := range names {
		switch owner, again := taken[name]; {
		case again:
			return fmt.Errorf("%s: the name %q is that of %s", where, name, owner)
		case name == "":
			return fmt.Errorf("%s: a name is empty", where)
		case len(name) > maxName:
			return fmt.Errorf("%s: a name has %d bytes, want at most %d", where, len(name), maxName)
		case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
			return fmt.Errorf("%s: the name %q has characters that cannot be printed", where, name)
		}
		taken[name] = where
	}
	return nil
}
