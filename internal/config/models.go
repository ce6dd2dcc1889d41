package config

import (
	"fmt"
	"slices"
	"strings"
)

// Serving lists the models to serve, complete with what was left to the defaults: those of models, or the one of
// model. Only names, paths and tasks may still be empty.
func (c *Config) Serving() []Model {
	list := slices.Clone(c.Models)
	if len(list) == 0 {
		list = []Model{{Names: c.ServedModelName, Path: c.Model, Revision: c.Revision, ChatTemplate: c.ChatTemplate, Overrides: c.Overrides, LoRAModules: c.LoRAModules, Profile: c.Profile}}
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
	c.Models, c.Model, c.Revision, c.ServedModelName, c.ChatTemplate, c.Overrides, c.LoRAModules, c.Profile, c.MaxModelLen = list, "", "", nil, "", Overrides{}, nil, "", 0
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
		return ModelNames{}.Take("served-model-name ("+l.Origin["served-model-name"]+")", l.ServedModelName)
	}
	for _, p := range []string{"model", "revision", "served-model-name", "chat-template", "hf-overrides", "lora-modules", "profile"} {
		if o := l.Origin[p]; showValue(Find(p).field(&l.Config)) != "" {
			return fmt.Errorf("%s (%s) is for one model, but models (%s) lists %d: set it there, or leave one of the two out", p, o, l.Origin["models"], len(l.Models))
		}
	}
	taken := ModelNames{}
	for i := range l.Models {
		if err := l.validateModel(i, taken); err != nil {
			return err
		}
	}
	return l.validateShares()
}

// validateModel checks the i-th model; taken has the names of those before it, and who has them.
func (l *Loaded) validateModel(i int, taken ModelNames) error {
	m, where := &l.Models[i], l.ModelOrigin(i)
	if m.Path == "" {
		return fmt.Errorf("%s: missing path: want the directory of a checkpoint, its name in the Hugging Face hub, or a file", where)
	}
	if err := taken.Take(where, m.Names); err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if m.Devices != "" && !isDevice(m.Devices, l.Ranks) {
		return fmt.Errorf("%s: invalid devices %q: want cpu, cuda, or GPUs such as cuda:0,1", where, m.Devices)
	}
	for _, file := range []struct{ key, path string }{{"chat-template", m.ChatTemplate}, {"profile", m.Profile}} {
		if err := checkExists(file.path); err != nil {
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
				return fmt.Errorf("%s: invalid cache-share: models on %s have %.3g together, want at most 1", l.ModelOrigin(i), device, sum)
			}
		}
	}
	return nil
}
