package dds

import (
	"testing"

	"github.com/prefillonly/prefillonly/videoext/method/methodtest"
)

func TestMethod(t *testing.T) {
	adaptive := Paper()
	adaptive.Adapt = DefaultAdapt()
	for name, c := range map[string]Config{"paper": Paper(), "repo": Repo(), "tuned": Tuned(), "adaptive": adaptive} {
		t.Run(name, func(t *testing.T) {
			if err := c.Check(); err != nil {
				t.Fatal(err)
			}
			methodtest.Run(t, New(c))
		})
	}
}
