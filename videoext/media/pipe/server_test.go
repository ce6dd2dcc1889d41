package pipe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// refusing is an encoder that encodes nothing: what stands before it is tested here, with real ones in cmd/camera.
type refusing struct{}

func (refusing) Encode(context.Context, []*media.Frame, media.Settings) (*media.Segment, error) {
	return nil, errors.New("nothing is encoded")
}

// FuzzServe: whatever comes through the pipe, serving ends, in answers that are messages.
func FuzzServe(f *testing.F) {
	for _, fill := range []func(*connection) error{
		func(c *connection) error {
			h, err := newSettingsHead(&media.Settings{Rate: 1, Quality: media.Maps{media.NewQPMap(32, 16, 3)}})
			return errors.Join(err, c.sendFrame(media.NewFrame(32, 16)), c.sendMessage(encode, &encodeHead{Settings: h}))
		},
		func(c *connection) error {
			return errors.Join(c.sendMessage(openSource, &openHead{"absent", 3}), c.sendMessage(encodeClip, &encodeHead{Source: 1, Count: 3}))
		},
		func(c *connection) error { return c.sendMessage(closeSource, 1) },
	} {
		var b bytes.Buffer
		if err := fill(&connection{out: &b}); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		_ = Serve(t.Context(), bytes.NewReader(data), &out, refusing{}) // an error is right for most
		c := &connection{in: &out}
		for {
			m, err := c.receiveMessage()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				_, err = c.readMessage(m.size)
			}
			if err != nil || m.kind != hello && m.kind != failed && m.kind != opened {
				t.Fatalf("an answer of kind %d, %v", m.kind, err)
			}
		}
	})
}
