package roles

import (
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modeldir"
	"github.com/prefillonly/prefillonly/internal/modellist"
)

// servedModels are the models as a frontend serves them.
func servedModels(cfg *config.Config) (list []registry.Model) {
	for i := range cfg.Models {
		m := &cfg.Models[i]
		next := registry.Model{Name: m.Names[0], Names: m.Names[1:], Always: m.Keep.When == config.KeepAlways, Image: modellist.ImageOptions(&m.Image)}
		if m.Task != config.TaskInfer {
			is, err := modeldir.Purpose(m)
			next.Checkpoint, next.TextKey = is, m.Path+"\x00"+m.ChatTemplate
			next.Open = func() (*registry.Text, error) { return openText(m, err) }
		}
		list = append(list, next)
	}
	return list
}

// openText opens what a model's texts are read with, unless its files do not say what it is for.
func openText(m *config.Model, unknown error) (*registry.Text, error) {
	if unknown != nil {
		return nil, unknown
	}
	text, err := openTexts(m.Path, m.ChatTemplate)
	if err != nil {
		return nil, err
	}
	return &registry.Text{Text: text.Text, Specials: text.Specials, Close: text.Close}, nil
}

// openOnly opens the texts of a model that is alone: without them nothing can be served.
func openOnly(models []registry.Model) error {
	if len(models) != 1 || models[0].Open == nil {
		return nil
	}
	text, err := models[0].Open()
	models[0].Open = func() (*registry.Text, error) { return text, err }
	return err
}
