package weights

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// The files of an adapter, such as LoRA's: what is to be added to the weights of another model.
const adapterConfig = "adapter_config.json"

var adapterFiles = []string{adapterConfig, "adapter_model.safetensors", "adapter_model.bin"}

// otherFormats are the endings of weights that are not read here.
var otherFormats = []string{".gguf", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".ckpt"}

// Foreign says of names of files, in a directory or a repository, what they are instead of a checkpoint: an adapter, which may stand
// beside one, or weights in another format; empty where they are neither. How is what is to be done then.
func Foreign(names []string) (what, how string) {
	for _, name := range adapterFiles {
		if slices.Contains(names, name) {
			if slices.Contains(names, singleFile) || slices.Contains(names, indexFile) {
				return "an adapter (" + name + ") beside its weights, and which of the two is meant is not said",
					"merge it into them (in peft, merge_and_unload and save_pretrained), or serve a copy without its files to have the weights as they are, and the adapter by --lora-modules"
			}
			return "an adapter (" + name + ") and no model", "serve the model that it was made for, and the adapter by --lora-modules NAME=DIR, or merge it into the model (in peft, merge_and_unload and save_pretrained), and serve that"
		}
	}
	if slices.Contains(names, singleFile) || slices.Contains(names, indexFile) {
		return "", ""
	}
	for _, ending := range otherFormats {
		for _, name := range names {
			if strings.EqualFold(filepath.Ext(name), ending) {
				how = "serve the safetensors that they were made of, or convert them (in transformers, save_pretrained writes safetensors)"
				if gguf.IsName(name) {
					how = "give the path of the GGUF file itself (of several parts, the first), or serve the safetensors that it was made of"
				}
				return fmt.Sprintf("weights in another format (%.100q) and no %s", name, singleFile), how
			}
		}
	}
	return "", ""
}

// checkFiles refuses a directory that holds no checkpoint alone, and says what it is.
func checkFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	what, how := Foreign(names)
	switch {
	case what == "" && slices.Contains(names, "config.json"), strings.HasPrefix(what, "weights") && slices.Contains(names, "config.json"):
		return nil // the texts are there; the weights may be elsewhere
	case what == "":
		return fmt.Errorf("%s has no config.json: want the directory of a checkpoint", dir)
	}
	return fmt.Errorf("%s holds %s%s: %s", dir, what, adapterBase(dir), how)
}

// adapterBase names the model that an adapter in dir was made for.
func adapterBase(dir string) string {
	var adapter struct {
		Base string `json:"base_model_name_or_path"`
	}
	raw, err := regular.ReadFile(filepath.Join(dir, adapterConfig), maxConfig)
	if err != nil || json.Unmarshal(raw, &adapter) != nil || adapter.Base == "" {
		return ""
	}
	return fmt.Sprintf("; this one was made for %.100q", adapter.Base)
}
