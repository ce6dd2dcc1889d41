package uniform

import (
	"testing"

	"github.com/prefillonly/prefillonly/videoext/method/methodtest"
)

func TestMethod(t *testing.T) {
	methodtest.Run(t, New(Config{Frames: 10, QP: 30, Scale: 0.8}))
}
