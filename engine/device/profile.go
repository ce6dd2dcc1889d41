package device

import (
	"errors"
	"io/fs"

	"github.com/prefillonly/prefillonly/engine/executor/profile"
	"github.com/prefillonly/prefillonly/engine/wire"
	"go.uber.org/zap"
)

// applyProfile puts a stored profile into info. One that was asked for must be there and fit; the
// default one is used if it does.
func applyProfile(o Options, info *wire.ExecutorInfo) error {
	path := o.Profile
	if path == "" {
		if o.CacheDir == "" {
			return nil
		}
		path = profile.Path(o.CacheDir, *info)
	}
	file, err := profile.Load(path, *info)
	switch {
	case err == nil:
		file.Fit.Apply(info)
		o.Log.Info("profile loaded", zap.String("file", path), zap.Duration("token", file.Fit.Token))
	case o.Profile != "":
		return &Error{Configuration, err}
	case !errors.Is(err, fs.ErrNotExist):
		o.Log.Warn("profile ignored", zap.Error(err))
	}
	return nil
}
