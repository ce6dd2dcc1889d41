package weights

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDirectoriesThatAreNoCheckpoint: what a directory is instead is said, and what to do; one with an adapter beside its weights is
// not served as the weights alone.
func TestDirectoriesThatAreNoCheckpoint(t *testing.T) {
	const config, weights, adapter = "config.json", "model.safetensors", `{"base_model_name_or_path":"org/base"}`
	for _, c := range []struct {
		files map[string]string
		want  []string // none: it is read
	}{
		{map[string]string{config: "{}", weights: ""}, nil},
		{map[string]string{config: "{}", "pytorch_model.bin": "", weights: ""}, nil},
		{map[string]string{config: "{}", "model.safetensors.index.json": "{}"}, nil},
		{map[string]string{config: "{}"}, nil}, // texts alone
		{map[string]string{"adapter_config.json": adapter, "adapter_model.safetensors": ""}, []string{"holds an adapter (adapter_config.json) and no model", `made for "org/base"`, "merge it into the model"}},
		{map[string]string{"adapter_config.json": "no JSON"}, []string{"holds an adapter", "merge it"}},
		{map[string]string{config: "{}", "adapter_model.bin": ""}, []string{"holds an adapter (adapter_model.bin) and no model"}},
		{map[string]string{config: "{}", weights: "", "adapter_model.safetensors": ""}, []string{"an adapter (adapter_model.safetensors) beside its weights", "serve a copy without its files"}},
		{map[string]string{config: "{}", "model.safetensors.index.json": "{}", "adapter_config.json": adapter}, []string{"beside its weights", `made for "org/base"`}},
		{map[string]string{"model-Q4_K_M.gguf": ""}, []string{`weights in another format ("model-Q4_K_M.gguf") and no model.safetensors`, "path of the GGUF file itself"}},
		{map[string]string{"tf_model.h5": "", "README.md": ""}, []string{"tf_model.h5", "convert"}},
		{map[string]string{"README.md": ""}, []string{"has no config.json"}},
		{nil, []string{"has no config.json"}},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := ReadConfig(dir)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%v: %v, want %q", c.files, err, c.want)
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", c.files, err, want)
			}
		}
	}
	dir := t.TempDir()
	for _, name := range []string{config, "model.GGUF"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), `weights in another format ("model.GGUF")`) {
		t.Errorf("a configuration with GGUF: %v", err)
	}
}
