package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestLoRAModules(t *testing.T) {
	want := LoRAModules{{"a", "x"}, {"b", "y/z"}}
	for _, text := range []string{"a=x,b=y/z", `{"a": "x", "b": "y/z"}`, `[{"name": "a", "path": "x", "base_model_name": "base"}, {"name": "b", "path": "y/z"}]`, "[a=x, b=./y/z]"} {
		var got, again LoRAModules
		if err := got.Set(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if err := again.Set(got.String()); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: shown as %s: %v, %v", text, &got, again, err)
		}
	}
	for text, want := range map[string]string{
		"a": "want NAME=PATH", "=x": "invalid adapter", "a=": "invalid adapter", `{"name": "a", "path": "x", "rank": 3}`: `unknown key "rank"`,
		strings.Repeat("a=x,", maxAdapters) + "a=x": "more than 1024 adapters",
	} {
		if err := new(LoRAModules).Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
	dir := t.TempDir()
	list := []Model{{Path: "a", Names: []string{"a"}}, {Path: "b", Names: []string{"b"}, LoRAModules: LoRAModules{{"a", dir}}}}
	if err := CheckModelNames(list); err == nil || !strings.Contains(err.Error(), `lora-modules: the name "a" is already that of model 1`) {
		t.Errorf("a name that a model has: %v", err)
	}
	list[1].LoRAModules = LoRAModules{{"c", dir + "/none"}}
	if err := CheckModelNames(list); err == nil || !strings.Contains(err.Error(), "want a directory with adapter_config.json") {
		t.Errorf("no directory: %v", err)
	}
}
