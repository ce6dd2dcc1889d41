//go:build !cgo

package x264

import (
	"context"
	"errors"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// Library says that there is none.
func Library() string { return "no libx264 (built without cgo)" }

func encode(context.Context, []*media.Frame, *media.Settings, int) (*media.Segment, error) {
	return nil, errors.New("video cannot be encoded: this program is built without cgo, which libx264 needs; build it with CGO_ENABLED=1 and Debian's libx264-dev")
}
