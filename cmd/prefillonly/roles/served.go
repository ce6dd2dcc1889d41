package roles

import (
	"fmt"
	"sync"

	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/speech"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// servedModels are the models as a frontend serves them.
func servedModels(cfg *config.Config) (list []registry.Model) {
	for i := range cfg.Models {
		m := &cfg.Models[i]
		next := registry.Model{Name: m.Names[0], Names: m.Names[1:], Always: m.Keep.When == config.KeepAlways, Image: modellist.ImageOptions(&m.Image)}
		for _, a := range m.LoRAModules {
			next.Adapters = append(next.Adapters, a.Name)
		}
		if m.Pipeline != "" {
			next.Pipeline = servedPipeline(m)
		}
		if m.Task != config.TaskInfer {
			is, err := modellist.Purpose(m)
			next.Checkpoint, next.TextKey = is, m.Path+"\x00"+m.ChatTemplate
			next.Open = func() (*text.Text, error) {
				if err != nil {
					return nil, err // its files do not say what it is for
				}
				return openText(m.Path, m.ChatTemplate)
			}
		}
		list = append(list, next)
	}
	return list
}

// endpoints are where pipelines are asked.
var endpoints = map[string]string{config.PipelineOCR: "/v1/ocr", config.PipelineSpeech: "/v1/audio/transcriptions"}

// servedPipeline is a pipeline as a frontend serves it.
func servedPipeline(m *config.Model) *registry.Pipeline {
	p := &registry.Pipeline{Kind: m.Pipeline, Endpoint: endpoints[m.Pipeline], Networks: map[string]string{}}
	for i, part := range config.Pipelines[m.Pipeline] {
		if *part.File(&m.Networks) != "" {
			p.Networks[part.Key] = config.NetworkName(m.Names[0], i, part)
		}
	}
	p.Alphabet = sync.OnceValues(func() ([]string, error) { return modellist.Alphabet(m) })
	p.Sound = sync.OnceValues(func() (speech.Settings, error) { return modellist.SoundSettings(m) })
	return p
}

// openText opens what the texts of the checkpoint in dir are read and written with. A file of a template is used in place of
// the checkpoint's own one; it may be empty.
func openText(dir, template string) (*text.Text, error) {
	var source []byte
	if template != "" {
		var err error
		if source, err = regular.ReadFile(template, tokenizer.MaxTemplate); err != nil {
			return nil, fmt.Errorf("chat-template: %w", err)
		}
	}
	t, err := tokenizer.Open(dir)
	if err != nil {
		return nil, err
	}
	if len(source) > 0 {
		t.UseTemplate(string(source))
	}
	return &text.Text{Tokenizer: t, Template: t, Grammars: t, Specials: t, Close: t.Close}, nil
}

// openOnly opens the texts of a model that is alone: without them nothing can be served.
func openOnly(models []registry.Model) error {
	if len(models) != 1 || models[0].Open == nil {
		return nil
	}
	opened, err := models[0].Open()
	models[0].Open = func() (*text.Text, error) { return opened, err }
	return err
}
