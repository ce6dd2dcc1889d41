package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/merging/generations"
	"github.com/prefillonly/prefillonly/videoext/media"
)

// Get asks a running server for a path, whose answer is of no more than most bytes.
type Get func(ctx context.Context, path string, most int64) ([]byte, error)

// What a clip of a stream is.
const (
	mostFrames    = 1500 // evenly over the time that is given
	mostBytes     = 256 << 20
	mostTogether  = 1 << 30 // bytes of all clips of a merge, which have equal shares
	mostStreams   = 64
	mostFrame     = 4 << 20
	leastInterval = 50 * time.Millisecond
	fewestFrames  = 10
)

// patience is how long a stream may show nothing new.
const patience = time.Minute

// streamPrefix is of a clip that is to come from a stream.
const streamPrefix = "stream:"

// recording is a clip that is being made of the pictures that a stream shows.
type recording struct {
	stream, file  string
	pictures      [][]byte
	width, height int
	bytes, most   int
	last          time.Time // of a new picture
	ended         bool
}

// recordingFile is where the clip of a stream is kept.
func (f *runFlags) recordingFile(stream string) string {
	return filepath.Join(f.out, "stream-"+stream+".avi")
}

// recordings are those of the streams that clips are to come from, and are not there yet.
func (f *runFlags) recordings(networks []network) (list []*recording, err error) {
	seen, streams := map[string]bool{}, 0
	for i := range networks {
		stream, ok := strings.CutPrefix(networks[i].Clip, streamPrefix)
		if !ok {
			continue
		}
		if stream == "" || strings.ContainsAny(stream, "/\x00") || len(stream) > 200 {
			return nil, cli.UsageError("--data: invalid name %q of a stream", stream)
		}
		streams++
		networks[i].Clip = f.recordingFile(stream)
		if _, err := os.Stat(networks[i].Clip); err == nil || seen[stream] {
			continue
		}
		seen[stream] = true
		list = append(list, &recording{stream: stream, file: networks[i].Clip})
	}
	for _, r := range list {
		r.most = min(mostBytes, mostTogether/len(list))
	}
	switch {
	case len(list) > mostStreams:
		return nil, cli.UsageError("--data: %d streams are to be recorded: want at most %d at once", len(list), mostStreams)
	case len(list) > 0 && f.server == "":
		return nil, cli.UsageError("--data %s%s: say with --server whose stream that is", streamPrefix, list[0].stream)
	case f.server != "" && streams == 0:
		return nil, cli.UsageError("--server %s: no clip of --data is a stream:NAME", f.server)
	case len(list) > 0:
		return list, generations.CheckDir(f.out)
	}
	return nil, nil
}

// record makes clips of streams, all at once, for the time that is given.
func (f *runFlags) record(ctx context.Context, list []*recording, p *progress) error {
	if len(list) == 0 {
		return nil
	}
	get, err := f.openServer(f.server, f.keyFile)
	if err != nil {
		return err
	}
	for _, r := range list {
		if _, err := get(ctx, r.path(), mostFrame); err != nil {
			return fmt.Errorf("stream %s: %w", r.stream, err)
		}
	}
	began := time.Now()
	tick := time.NewTicker(max(f.collect/mostFrames, leastInterval))
	defer tick.Stop()
	for live := true; live && time.Since(began) < f.collect; {
		live = false
		for _, r := range list {
			if !r.ended {
				if err := r.poll(ctx, get, began); err != nil {
					return err
				}
			}
			live = live || !r.ended
		}
		p.status(fmt.Sprintf("%s, %v of %v", describeRecordings(list), time.Since(began).Round(time.Second), f.collect))
		select {
		case <-ctx.Done():
			return errors.New("stopped before the clips of streams were whole: the same command begins them anew")
		case <-tick.C:
		}
	}
	p.line(describeRecordings(list))
	for _, r := range list {
		if err := r.writeClip(time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

func describeRecordings(list []*recording) string {
	var said []string
	for _, r := range list {
		said = append(said, fmt.Sprintf("stream %s: %d frames, %s MiB", r.stream, len(r.pictures), mebibytes(int64(r.bytes))))
	}
	return strings.Join(said, ", ")
}

func (r *recording) path() string { return "/v1/video/streams/" + url.PathEscape(r.stream) }

// poll adds the picture that is shown. What cannot be had now may come later.
func (r *recording) poll(ctx context.Context, get Get, began time.Time) error {
	picture, err := get(ctx, r.path()+"/frame.jpg", mostFrame)
	now := time.Now()
	if err == nil {
		added, err := r.addPicture(picture)
		if err != nil {
			return err
		}
		if added {
			r.last = now
		}
	}
	r.ended = r.bytes > r.most || now.Sub(r.last) > patience && now.Sub(began) > patience
	return nil
}

// addPicture keeps a picture that is another one than the last, and of the first one's size. The sizes are the server's word, which those who decode the
// clip make room by.
func (r *recording) addPicture(picture []byte) (added bool, err error) {
	c, err := jpeg.DecodeConfig(bytes.NewReader(picture))
	n := len(r.pictures)
	if err != nil || len(picture) >= mostFrame || n > 0 && (bytes.Equal(r.pictures[n-1], picture) || c.Width != r.width || c.Height != r.height) {
		return false, nil
	}
	if err := media.CheckSize(c.Width, c.Height); err != nil {
		return false, fmt.Errorf("stream %s: %w", r.stream, err)
	}
	r.pictures, r.width, r.height, r.bytes = append(r.pictures, picture), c.Width, c.Height, r.bytes+len(picture)
	return true, nil
}

// writeClip writes the clip whole, or not at all.
func (r *recording) writeClip(took time.Duration) error {
	if n := len(r.pictures); n < fewestFrames {
		return fmt.Errorf("stream %s has shown %d frames in %v, want %d or more: see whether it is live, or give a longer --collect", r.stream, n, took.Round(time.Second), fewestFrames)
	}
	if err := os.MkdirAll(filepath.Dir(r.file), 0o777); err != nil {
		return err
	}
	partial := r.file + ".partial"
	each := max(took/time.Duration(len(r.pictures)), time.Millisecond)
	err := cli.WriteFile(partial, func(to *os.File) error { return media.WriteAVI(to, r.width, r.height, each, r.pictures) })
	if err != nil {
		_ = os.Remove(partial)
		return err
	}
	return os.Rename(partial, r.file)
}
