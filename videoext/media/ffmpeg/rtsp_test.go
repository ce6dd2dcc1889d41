//go:build cgo && !noffmpeg

package ffmpeg

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// camera is an RTSP server (RFC 2326) of one client, which plays units in turn over the connection itself (RFC 6184 in
// interleaved frames), frame by frame as pace lets it, and then is silent.
type camera struct {
	listener net.Listener
	units    []media.Unit // in the order of time
	pace     time.Duration
	hangUp   bool // after the last unit
}

func startCamera(t *testing.T, c *camera) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	c.listener = listener
	go func() { // ended by the listener's end
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = c.serve(connection) // the client may leave at any time
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "rtsp://user:secret@" + listener.Addr().String() + "/stream"
}

func (c *camera) serve(connection net.Conn) error {
	in := textproto.NewReader(bufio.NewReader(connection))
	for {
		request, err := in.ReadLine()
		if err != nil {
			return err
		}
		header, err := in.ReadMIMEHeader()
		if err != nil {
			return err
		}
		method, _, _ := strings.Cut(request, " ")
		more, body := "", ""
		switch method {
		case "DESCRIBE":
			body = c.description()
			more = "Content-Type: application/sdp\r\n"
		case "SETUP":
			more = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"
		case "OPTIONS":
			more = "Public: DESCRIBE, SETUP, PLAY\r\n"
		}
		if _, err := fmt.Fprintf(connection, "RTSP/1.0 200 OK\r\nCSeq: %s\r\nSession: 1\r\n%sContent-Length: %d\r\n\r\n%s", header.Get("CSeq"), more, len(body), body); err != nil {
			return err
		}
		if method == "PLAY" {
			return c.play(connection, in)
		}
	}
}

func (c *camera) description() string {
	var sets []string
	for _, n := range media.NALUnits(c.units[0].Data) {
		if n.Type == media.NALSequence || n.Type == media.NALPicture {
			sets = append(sets, base64.StdEncoding.EncodeToString(payload(n)))
		}
	}
	return "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=test\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1;sprop-parameter-sets=" + strings.Join(sets, ",") + "\r\na=control:track\r\n"
}

// payload is a NAL unit without its start code.
func payload(n media.NAL) []byte { return n.Data[bytes.IndexByte(n.Data, 1)+1:] }

func (c *camera) play(connection net.Conn, in *textproto.Reader) error {
	sequence := uint16(0)
	for i, u := range c.units {
		units := media.NALUnits(u.Data)
		for j, n := range units {
			packet := []byte{0x80, 96, 0, 0}
			if j == len(units)-1 {
				packet[1] |= 0x80 // the frame's end
			}
			binary.BigEndian.PutUint16(packet[2:], sequence)
			packet = binary.BigEndian.AppendUint32(packet, uint32(i)*90000/12)
			packet = binary.BigEndian.AppendUint32(packet, 1)
			packet = append(packet, payload(n)...)
			sequence++
			head := binary.BigEndian.AppendUint16([]byte{'$', 0}, uint16(len(packet)))
			if _, err := connection.Write(append(head, packet...)); err != nil {
				return err
			}
		}
		time.Sleep(c.pace)
	}
	if c.hangUp {
		return nil
	}
	_, err := in.ReadLine() // until the client leaves
	return err
}

// plainUnits are those of the drawn clip without B frames.
func plainUnits(t *testing.T) []media.Unit {
	t.Helper()
	data := judge(t, nil, "-i", "testdata/drawn.mkv", "-c", "copy", "-f", "h264", "-")
	var units []media.Unit
	var unit []byte
	for _, n := range media.NALUnits(data) {
		if n.Type != 6 {
			unit = append(unit, n.Data...)
		}
		if n.Type == media.NALSlice || n.Type == media.NALIDR {
			units = append(units, media.Unit{Data: unit, Order: len(units)})
			unit = nil
		}
	}
	return units
}

// TestCamera: the frames of an RTSP camera are those of the file, in order; then it falls silent or hangs up, which is an
// error that names it, without its password, in time; and it can be opened again.
func TestCamera(t *testing.T) {
	units := plainUnits(t)
	for name, c := range map[string]*camera{"silent": {units: units}, "hangs up": {units: units, hangUp: true}} {
		t.Run(name, func(t *testing.T) {
			address := startCamera(t, c)
			for range 2 {
				clip := mustOpen(t, address, Options{Timeout: 2 * time.Second})
				if i := clip.Info(); i.Width != 96 || i.Codec != "h264" || i.Duration >= 0 {
					t.Errorf("the camera is said to be %+v", i)
				}
				file := mustOpen(t, "testdata/drawn.mkv", Options{})
				frames, began := 0, time.Now()
				var err error
				var f *media.Frame
				for ; ; frames++ {
					if f, err = clip.Next(t.Context()); err != nil {
						break
					}
					want := next(t, file)
					if want == nil || !bytes.Equal(raw(f), raw(want)) || f.Index != frames {
						t.Fatalf("frame %d is number %d, or another one", frames, f.Index)
					}
					if d := f.Time - want.Time; d < -2*time.Millisecond || d > 2*time.Millisecond {
						t.Errorf("frame %d is at %v instead of %v", frames, f.Time, want.Time)
					}
				}
				if took := time.Since(began); frames < 20 || took > 10*time.Second || strings.Contains(err.Error(), "secret") {
					t.Errorf("%d frames, and after %v: %v", frames, took, err)
				}
				t.Logf("%d frames, then: %v", frames, err)
				if err := clip.Seek(t.Context(), 0); err == nil {
					t.Error("a camera went back in time")
				}
				if err := clip.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestCameraIsCancelled: a context ends the wait for a camera's answer, and for its next frame.
func TestCameraIsCancelled(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Open(ctx, "rtsp://"+mute.Addr().String()+"/x", Options{Timeout: time.Minute}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("opening, after %v: %v", time.Since(began), err)
	}
	began = time.Now()
	if _, err := Open(t.Context(), "rtsp://"+mute.Addr().String()+"/x", Options{Timeout: 300 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "timed out") || time.Since(began) > 5*time.Second {
		t.Errorf("opening with a time limit, after %v: %v", time.Since(began), err)
	}
	clip := mustOpen(t, startCamera(t, &camera{units: plainUnits(t)}), Options{Timeout: time.Minute})
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for err = nil; err == nil; _, err = clip.Next(ctx) {
	}
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
		t.Errorf("a frame, after %v: %v", time.Since(began), err)
	}
}
