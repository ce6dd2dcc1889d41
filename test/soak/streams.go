package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// eyeName is the network that looks at streams.
const eyeName = "eye"

// streams are a file's and a camera's, which the server keeps beside its other traffic.
type streams struct {
	config  config
	url     string
	all     []*stream
	cameras int
	pid     atomic.Int64 // of the camera's program; 0: none runs
}

// stream is one whose results are followed.
type stream struct {
	name, spec string
	clip       int // frames of the file that it begins again and again; 0: it is none

	mu             sync.Mutex
	number         uint64          // guarded by mu; of the last result
	segment, frame int             // guarded by mu; the next that gets a final result
	final, dropped int             // guarded by mu; frames
	own            map[int]float64 // guarded by mu; what is in each frame of the clip
	wrong          []string        // guarded by mu; the first of what is
}

// clipFrames is how many the clip has.
const clipFrames = 24

func newStreams(c config, url string) *streams {
	file := fmt.Sprintf(`{"name":"file","model":%q,"source":%q,"loop":true}`, eyeName, filepath.Base(c.clip))
	camera := fmt.Sprintf(`{"name":"camera","model":%q,"source":"camera","method":"dds:frames=4,objectness=0.2"}`, eyeName)
	return &streams{config: c, url: url + "/v1/video/streams", all: []*stream{
		{name: "file", spec: file, clip: clipFrames, own: map[int]float64{}}, {name: "camera", spec: camera},
	}}
}

// startFollowing declares the streams and follows them until ctx ends; then they are removed, and the result closed.
func (v *streams) startFollowing(ctx context.Context) (<-chan struct{}, error) {
	for _, s := range v.all {
		response, err := client.Post(v.url, "application/json", strings.NewReader(s.spec))
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it was read
		if err != nil || response.StatusCode != http.StatusCreated {
			return nil, fmt.Errorf("stream %s: %d %s %w", s.name, response.StatusCode, text, errors.Join(err))
		}
	}
	var group sync.WaitGroup
	for _, s := range v.all {
		group.Go(func() { // ends with ctx
			for ctx.Err() == nil {
				s.followResults(ctx, v.url)
				_ = sleep(ctx, 100*time.Millisecond)
			}
		})
	}
	group.Go(func() { // ends with ctx
		for ctx.Err() == nil {
			v.runCamera(ctx)
		}
	})
	over := make(chan struct{})
	go func() { // ends with ctx
		group.Wait()
		for _, s := range v.all {
			s.removeFromServer(v.url)
		}
		close(over)
	}()
	return over, nil
}

// runCamera runs the camera's program, and kills it after some faults' time.
func (v *streams) runCamera(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, max(4*v.config.every, 10*time.Second))
	defer stop()
	server := strings.TrimSuffix(v.url, "/v1/video/streams")
	cmd := exec.CommandContext(ctx, v.config.camera, "run", "--server", server, "--stream", "camera", "--source", v.config.clip, "--loop", "--rate", "0")
	if cmd.Start() == nil {
		v.cameras++
		v.pid.Store(int64(cmd.Process.Pid))
		_ = cmd.Wait() // it was killed
	}
	v.pid.Store(0)
	_ = sleep(ctx, 100*time.Millisecond) // should it end at once
}

// followResults reads results behind the last one until the connection ends.
func (s *stream) followResults(ctx context.Context, url string) {
	s.mu.Lock()
	last := s.number
	s.mu.Unlock()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%s/results?after=%d", url, s.name, last), nil)
	if err != nil {
		return
	}
	request.Header.Set("Accept", "application/x-ndjson")
	response, err := listener.Do(request)
	if err != nil {
		return // a process was struck
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return
	}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		var r result
		if lines.Text() == "" {
			continue
		}
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			return // it is cut
		}
		s.checkResult(&r)
	}
}

// result is what is looked at of a result.
type result struct {
	Number             uint64
	Segment, Frame, Of int
	Final              bool
	Dropped            string
	Boxes              []struct{ Score float64 }
}

// checkResult holds a result to those before.
func (s *stream) checkResult(r *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Number != s.number+1 {
		s.addNote("result %d comes behind %d", r.Number, s.number)
	}
	s.number = r.Number
	if r.Segment < s.segment || r.Final && (r.Segment != s.segment || r.Frame != s.frame) {
		s.addNote("a result of frame %d of segment %d comes when frame %d of %d is next", r.Frame, r.Segment, s.frame, s.segment)
	}
	if !r.Final {
		return
	}
	s.final++
	if s.frame++; s.frame >= r.Of {
		s.segment, s.frame = r.Segment+1, 0
	}
	if r.Dropped != "" {
		s.dropped++
		return
	}
	if s.clip == 0 || len(r.Boxes) != 1 {
		return
	}
	own, known := s.own[r.Segment%s.clip]
	if s.own[r.Segment%s.clip] = r.Boxes[0].Score; known && own != r.Boxes[0].Score {
		s.addNote("segment %d has what is in another frame: %v, not %v", r.Segment, r.Boxes[0].Score, own)
	}
}

func (s *stream) addNote(format string, args ...any) {
	if len(s.wrong) < maxNotes {
		s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	}
}

func (s *stream) removeFromServer(url string) {
	request, err := http.NewRequest(http.MethodDelete, url+"/"+s.name, nil)
	if err != nil {
		return
	}
	if response, err := client.Do(request); err == nil {
		_ = response.Body.Close() // nothing left tells whether it was done
	}
}

// verdict is an error unless frames had results in order, each its own, and half of them at the least were seen.
func (v *streams) verdict() error {
	if v == nil {
		return nil
	}
	var errs []error
	for _, s := range v.all {
		s.mu.Lock()
		if len(s.wrong) > 0 {
			errs = append(errs, fmt.Errorf("stream %s: %q", s.name, s.wrong))
		}
		if s.final == 0 || s.dropped > s.final/2 {
			errs = append(errs, fmt.Errorf("stream %s: %d of %d frames were not seen", s.name, s.dropped, s.final))
		}
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// writeTable prints a table.
func (v *streams) writeTable(w io.Writer) {
	if v == nil {
		return
	}
	writeTableRow(w, true, "stream", "results", "final", "not seen", "wrong")
	for _, s := range v.all {
		s.mu.Lock()
		writeTableRow(w, false, s.name, s.number, s.final, s.dropped, len(s.wrong))
		s.mu.Unlock()
	}
	fmt.Fprintf(w, "\n%d cameras, one after the other\n\n", v.cameras)
}
