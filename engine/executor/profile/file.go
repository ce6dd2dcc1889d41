package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/prefillonly/prefillonly/internal/regular"
	"os"
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// File is a stored profile: of one model on one device.
type File struct {
	Device      string   `json:"device"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"fingerprint"`
	Fit         Fit      `json:"fit"`
	Samples     []Sample `json:"samples"`
}

// Path names the profile of a model on a device in dir.
func Path(dir, device string, m *wire.ModelInfo) string {
	sum := sha256.Sum256([]byte(device + "\x00" + m.Fingerprint))
	return filepath.Join(dir, "profile-"+hex.EncodeToString(sum[:8])+".json")
}

// Save writes f, replacing an older one at once.
func Save(path string, f File) error {
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// maxFile is the most bytes of a profile; one has some ten thousand.
const maxFile = 16 << 20

// Load reads the profile at path and refuses that of another model or device. A missing file is
// fs.ErrNotExist.
func Load(path, device string, m *wire.ModelInfo) (File, error) {
	raw, err := regular.ReadFile(path, maxFile)
	if err != nil {
		return File{}, err
	}
	var f File
	if err := json.Unmarshal(raw, &f); err != nil {
		return File{}, fmt.Errorf("profile %s: %w", path, err)
	}
	var wrong error
	switch {
	case f.Fingerprint != m.Fingerprint:
		wrong = fmt.Errorf("it is of model %s (%s), this executor serves %s (%s)", f.Model, f.Fingerprint, m.Name, m.Fingerprint)
	case f.Device != device:
		wrong = fmt.Errorf("it is of device %s, this executor runs on %s", f.Device, device)
	case f.Fit.Base < 0 || f.Fit.Unit < 0 || f.Fit.Pair < 0 || !(f.Fit.Backward >= 0) || !(f.Fit.Growth >= 0) || f.Fit.Unit+f.Fit.Base == 0:
		wrong = errors.New("its coefficients are not those of a fit")
	}
	if wrong != nil {
		return File{}, fmt.Errorf("profile %s: %w; make one with prefillonly profile", path, wrong)
	}
	return f, nil
}
