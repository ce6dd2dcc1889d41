package host

import (
	"errors"
	"io/fs"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor/profile"
)

// profile takes a stored profile of the model. One that was asked for must be there and fit; the
// default one is used if it does.
func (h *Host) profile(m *hosted) error {
	device, info := h.o.Backend.Name(), m.model.Info()
	info.Name = m.Name
	path := m.Profile
	if path == "" {
		if h.o.CacheDir == "" {
			return nil
		}
		path = profile.Path(h.o.CacheDir, device, &info)
	}
	file, err := profile.Load(path, device, &info)
	switch {
	case err == nil:
		m.fit = file.Fit
		h.o.Log.Info("profile loaded", zap.String("model", m.Name), zap.String("file", path), zap.Duration("token", file.Fit.Token))
	case m.Profile != "":
		return &OptionError{err}
	case !errors.Is(err, fs.ErrNotExist):
		h.o.Log.Warn("profile ignored", zap.String("model", m.Name), zap.Error(err))
	}
	return nil
}
