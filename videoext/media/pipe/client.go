// Package pipe encodes video in a child process, over its standard input and output: the client starts it and implements
// an encoder, Serve is the child's side.
//
// It is what keeps a GPL encoder out of a program: cmd/camera is the child, and no library of the encoder is in the
// parent. A client hands over frames (Encode), or opens a file or camera in the child (Open) and names ranges of its
// frames, so that raw frames need not cross the pipe. Frames are scaled to the settings' size in the child. One request
// is under way at a time; start several children to encode at the same time.
package pipe

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// Program is the name of the child's program.
const Program = "camera"

// Find finds the child's program beside this one's, or where the shell finds programs.
func Find() (string, error) {
	if own, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(own), Program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", fmt.Errorf("video is encoded by the program %s, which is neither beside this one nor in PATH: `make build` makes it: %w", Program, err)
	}
	return path, nil
}

// Client is a child process that encodes. Its methods may be called by several goroutines.
type Client struct {
	command *exec.Cmd
	input   io.Closer
	words   *tail // what the child said last

	mu    sync.Mutex // held for each request
	pipe  connection
	out   *bufio.Writer
	times Times
	err   error // why there can be no more requests
}

// startTimeout is by when the child says hello, and ends when it is told to.
const startTimeout = 10 * time.Second

// Start starts `program encode` with more arguments, and waits until it is there.
func Start(ctx context.Context, program string, args ...string) (*Client, error) {
	c := &Client{command: exec.Command(program, append([]string{"encode"}, args...)...), words: &tail{}}
	c.command.Stderr = c.words
	in, err1 := c.command.StdinPipe()
	out, err2 := c.command.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("the encoder: %w", err)
	}
	c.input, c.out = in, bufio.NewWriterSize(in, 64<<10)
	c.pipe = connection{bufio.NewReaderSize(out, 64<<10), c.out}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.runCommand(ctx, c.readHello); err != nil {
		return nil, err
	}
	return c, nil
}

// readHello reads the hello.
func (c *Client) readHello() error {
	m, err := c.pipe.receiveMessage()
	if err != nil {
		return err
	}
	var spoken int
	if m.kind != hello || m.parseHead(&spoken) != nil || spoken != version {
		return fmt.Errorf("it does not speak version %d of the protocol: it is another program, or of another release", version)
	}
	return nil
}

// refusal is an answer that is an error, after which the child is well.
type refusal struct{ failedHead }

func (r *refusal) Error() string { return r.Text }

// Is makes a request behind the end of a source io.EOF.
func (r *refusal) Is(target error) bool { return r.End && target == io.EOF }

// runCommand makes a request. A context that ends, and what is wrong with the pipe, ends the child.
func (c *Client) runCommand(ctx context.Context, request func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmp.Or(c.err, ctx.Err()); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.command.Process.Kill() }) // it may have ended
	err := request()
	killed := !stop()
	var refused *refusal
	answered := err == nil || errors.As(err, &refused)
	if !answered || killed {
		c.err = c.reapChild(ctx, cmp.Or(err, ctx.Err()))
	}
	if !answered {
		return c.err
	}
	return err
}

// endTimeout is how long a child may take to end that has closed its output: how it ends is then its own doing.
const endTimeout = time.Second

// reapChild ends the child after an error and says how it ended.
func (c *Client) reapChild(ctx context.Context, err error) error {
	_ = c.input.Close()
	var wait time.Duration
	if ctx.Err() == nil && errors.Is(err, io.EOF) {
		wait = endTimeout
	}
	timer := time.AfterFunc(wait, func() { _ = c.command.Process.Kill() })
	defer timer.Stop()
	ended := c.command.Wait()
	how := "it ended"
	if ended != nil {
		how = ended.Error()
	}
	if said := c.words.String(); said != "" {
		how += "; it said: " + said
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("the encoder (%s, process %d) cannot go on: %w (%s)", c.command.Path, c.command.Process.Pid, err, how)
}

// awaitAnswer sends what was written and reads the answer's head.
func (c *Client) awaitAnswer(want kind, into any) (size int, err error) {
	if err := c.out.Flush(); err != nil {
		return 0, err
	}
	m, err := c.pipe.receiveMessage()
	if err != nil {
		return 0, unexpectedEOF(err)
	}
	if m.kind == failed && m.size == 0 {
		var r refusal
		if err := m.parseHead(&r.failedHead); err != nil {
			return 0, err
		}
		return 0, &r
	}
	if m.kind != want {
		return 0, fmt.Errorf("it answered with a message of kind %d", m.kind)
	}
	return m.size, m.parseHead(into)
}

// Encode encodes frames of one size as one segment, scaled to the settings' size. An error names what is wrong with
// them, or how the child ended, after which every call fails. A context that ends while the child encodes ends it.
func (c *Client) Encode(ctx context.Context, frames []*media.Frame, s media.Settings) (*media.Segment, error) {
	if len(frames) == 0 {
		return nil, errors.New("0 frames are to be encoded")
	}
	if err := s.Check(len(frames), frames[0].Width, frames[0].Height); err != nil {
		return nil, err
	}
	for i, f := range frames {
		if err := f.Check(); err != nil {
			return nil, fmt.Errorf("frame %d: %w", i, err)
		}
	}
	return c.requestEncode(ctx, encode, encodeHead{}, &s, frames)
}

func (c *Client) requestEncode(ctx context.Context, k kind, h encodeHead, s *media.Settings, frames []*media.Frame) (segment *media.Segment, err error) {
	if h.Settings, err = newSettingsHead(s); err != nil {
		return nil, err
	}
	return segment, c.runCommand(ctx, func() error {
		for _, f := range frames {
			if err := c.pipe.sendFrame(f); err != nil {
				return err
			}
		}
		if err := c.pipe.sendMessage(k, &h); err != nil {
			return err
		}
		var took Times
		size, err := c.awaitAnswer(encoded, &took)
		if err != nil {
			return err
		}
		data, err := c.pipe.readMessage(size)
		if err != nil {
			return err
		}
		c.times.addTimes(took)
		segment, err = media.ParseSegment(data)
		return err
	})
}

// Times are how long all encodings so far took in the child.
func (c *Client) Times() Times {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times
}

// Clip is a source that is open in the child.
type Clip struct {
	client *Client
	id     int
	info   ffmpeg.Info
}

// Open opens a file or a camera in the child, of which frames are taken at a rate (0: all of them), as ffmpeg.Open does.
func (c *Client) Open(ctx context.Context, name string, rate float64) (*Clip, error) {
	var h openedHead
	err := c.runCommand(ctx, func() error {
		if err := c.pipe.sendMessage(openSource, &openHead{name, rate}); err != nil {
			return err
		}
		_, err := c.awaitAnswer(opened, &h)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Clip{c, h.Source, h.Info}, nil
}

// Info describes the source.
func (c *Clip) Info() ffmpeg.Info { return c.info }

// Encode encodes count of the frames that were taken, from number first on; fewer where the source ends, and an error that
// is io.EOF behind its end. Frames of the last two ranges stay decoded; going further back decodes from the beginning.
func (c *Clip) Encode(ctx context.Context, first, count int, s media.Settings) (*media.Segment, error) {
	return c.client.requestEncode(ctx, encodeClip, encodeHead{Source: c.id, First: first, Count: count}, &s, nil)
}

// Close closes the source in the child.
func (c *Clip) Close() error {
	return c.client.runCommand(context.Background(), func() error {
		if err := c.client.pipe.sendMessage(closeSource, c.id); err != nil {
			return err
		}
		return c.client.out.Flush()
	})
}

// errClosed is what calls get after Close.
var errClosed = errors.New("the encoder is closed")

// Close ends the child. The error says how it ended, if not well.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil { // it ended before
		return nil
	}
	c.err = errClosed
	if err := c.input.Close(); err != nil {
		return c.reapChild(context.Background(), err)
	}
	timer := time.AfterFunc(startTimeout, func() { _ = c.command.Process.Kill() })
	defer timer.Stop()
	if err := c.command.Wait(); err != nil {
		return fmt.Errorf("the encoder (%s) ended: %w; it said: %s", c.command.Path, err, c.words)
	}
	return nil
}
