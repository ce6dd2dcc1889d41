package cudnn

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// A file of a plan is this line, the key's line, the hash of what follows, and the plan.
const storeMagic = "prefillonly plan of cuDNN 1\n"

func planFile(dir, key string) string {
	name := sha256.Sum256([]byte(key))
	return filepath.Join(dir, hex.EncodeToString(name[:16])+".plan")
}

// ReadPlan is the plan of this key in dir; ok is false when there is none, or none that is whole.
func ReadPlan(dir, key string) (plan []byte, ok bool) {
	if dir == "" {
		return nil, false
	}
	content, err := os.ReadFile(planFile(dir, key))
	if err != nil {
		return nil, false
	}
	return decodePlan(content, key)
}

// decodePlan takes a file apart.
func decodePlan(content []byte, key string) (plan []byte, ok bool) {
	content, ok = bytes.CutPrefix(content, []byte(storeMagic+key+"\n"))
	if !ok || len(content) <= sha256.Size {
		return nil, false
	}
	plan = content[sha256.Size:]
	sum := sha256.Sum256(plan)
	return plan, bytes.Equal(sum[:], content[:sha256.Size])
}

// EncodePlan is the content of a file.
func EncodePlan(plan []byte, key string) []byte {
	sum := sha256.Sum256(plan)
	return append(append([]byte(storeMagic+key+"\n"), sum[:]...), plan...)
}

// WritePlan stores a plan under its key; a reader sees all of it or nothing.
func WritePlan(dir, key string, plan []byte) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store of plans: %w", err)
	}
	f, err := os.CreateTemp(dir, "*.part")
	if err != nil {
		return fmt.Errorf("store of plans: %w", err)
	}
	_, err = f.Write(EncodePlan(plan, key))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), planFile(dir, key))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("store of plans: %w", err)
	}
	return nil
}
