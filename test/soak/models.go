package main

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/demo/demotest"
)

func modelName(i int) string { return "m" + strconv.Itoa(i) }

// writeModels writes the models that are to be served, and returns the arguments that say so; remove deletes them.
func writeModels(c config) (args []string, remove func(), err error) {
	if c.memory != "" {
		args = []string{"--memory", c.memory}
	}
	if c.models == 0 {
		return args, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return nil, nil, err
	}
	for i := range c.models {
		model := filepath.Join(dir, modelName(i))
		if err := demotest.Variant(model, byte(1+i)); err != nil {
			_ = os.RemoveAll(dir)
			return nil, nil, err
		}
		args = append(args, model)
	}
	return args, func() { _ = os.RemoveAll(dir) }, nil
}
