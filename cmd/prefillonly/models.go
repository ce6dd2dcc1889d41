package main

import (
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/texts"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/config/models"
	"github.com/prefillonly/prefillonly/internal/modeldir"
	"github.com/prefillonly/prefillonly/internal/modellist"
)

// rereadModels reads the configuration anew, and resolves the models for a process that goes on where it is. Changed
// are the other parameters that are not what they were in before.
func rereadModels(s settings, before *config.Config) (next *config.Config, failed []error, changed []string, err error) {
	if next, err = s.reread(); err != nil {
		return nil, nil, nil, err
	}
	changed = config.Changed(before, next)
	next.RuntimeDir, next.Device = s.RuntimeDir, s.Device
	failed, err = modellist.Resolve(next, modeldir.Cached)
	return next, failed, changed, err
}

// nameModelGPUs replaces the GPUs of the models' devices by their UUIDs.
func nameModelGPUs(cfg *config.Config, log *zap.Logger) error {
	return modellist.NameGPUs(cfg, func(devices string) (string, error) {
		own := *cfg
		own.Device = devices
		return device.NameGPUs(deviceOptions(&own, log), true)
	})
}

// served are the models as a frontend serves them.
func served(cfg *config.Config) (list []registry.Model) {
	for i := range cfg.Models {
		m := &cfg.Models[i]
		next := registry.Model{Name: m.Names[0], Names: m.Names[1:], Always: m.Keep.When == models.KeepAlways, Image: modellist.ImageOptions(&m.Image)}
		if m.Task != models.TaskInfer {
			is, err := checkpoint.Open(m.Path, m.Names[0], overridesOf(m))
			next.Checkpoint, next.TextKey = is, m.Path+"\x00"+m.ChatTemplate
			next.Open = func() (*registry.Text, error) { return openText(m, err) }
		}
		list = append(list, next)
	}
	return list
}

// overridesOf are the keys that a model's config.json lacks.
func overridesOf(m *models.Model) checkpoint.Overrides {
	o := &m.Overrides
	return checkpoint.Overrides{AnswerTokens: o.ClassifierFromToken, Method: o.Method, Qwen3Reranker: o.Original}
}

// openText opens what a model's texts are read with, unless its files do not say what it is for.
func openText(m *models.Model, unknown error) (*registry.Text, error) {
	if unknown != nil {
		return nil, unknown
	}
	text, err := texts.Open(m.Path, m.ChatTemplate)
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
