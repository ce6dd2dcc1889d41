package host

import (
	"errors"
	"io/fs"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor/profile"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// loadProfile takes a stored profile of the model. One that was asked for must be there and fit; the
// default one is used if it does.
func (h *Host) loadProfile(m *hosted) error {
	path, info := h.profileOf(m)
	if path == "" {
		return nil
	}
	file, err := profile.Load(path, h.o.Backend.Name(), info)
	switch {
	case err == nil:
		m.fit = file.Fit
		h.o.Log.Info("profile loaded", zap.String("model", m.Name), zap.String("file", path), zap.Duration("unit", file.Fit.Unit))
	case m.Profile != "":
		return &OptionError{err}
	case !errors.Is(err, fs.ErrNotExist):
		h.o.Log.Warn("profile ignored", zap.String("model", m.Name), zap.Error(err))
	}
	return nil
}

// profileOf is the file of a model's profile, empty if there can be none, and what tells it from others'.
func (h *Host) profileOf(m *hosted) (path string, info *wire.ModelInfo) {
	described := m.Info()
	described.Name = m.Name
	if m.Profile != "" || h.o.CacheDir == "" {
		return m.Profile, &described
	}
	return profile.Path(h.o.CacheDir, h.o.Backend.Name(), &described), &described
}

// saveProfile stores what was measured of a model, for the next start.
func (h *Host) saveProfile(m *hosted, samples []profile.Sample) {
	path, info := h.profileOf(m)
	if path == "" {
		return
	}
	file := profile.File{Device: h.o.Backend.Name(), Model: m.Name, Fingerprint: info.Fingerprint, Fit: m.fit, Samples: samples}
	if err := profile.Save(path, file); err != nil {
		h.o.Log.Warn("profile not kept", zap.String("model", m.Name), zap.Error(err))
	}
}
