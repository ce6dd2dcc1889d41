// Command soak serves mixed traffic from a real server for a while, ends or stops its processes at random
// meanwhile, and tells what became of every request and of each process's memory.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// config is what a soak is.
type config struct {
	binary     string
	device     string
	models     int    // that are served; 0: the demo model alone
	frames     bool   // a network is served beside, and asked for frames and gradients
	streams    bool   // video streams of a file and a camera are kept beside
	clip       string // their frames
	camera     string // the camera's program
	memory     string // --memory of the server; empty: what there is
	frontends  int
	clients    int
	duration   time.Duration // with 0, until all faults are done
	faults     int           // with a duration, of its last two thirds
	every      time.Duration // at least, between two faults
	signals    string
	roles      string
	silence    time.Duration // --hang-timeout of the server
	seed       uint64
	verbose    bool
	flatWithin int64 // bytes that a process may grow
}

func main() {
	var c config
	flag.StringVar(&c.binary, "binary", "bin/prefillonly", "the program under test")
	flag.StringVar(&c.device, "device", "cpu", "its --device")
	flag.IntVar(&c.models, "models", 0, "serve so many models, variants of the demo model of 6 MiB each, and ask all of them; 0: the demo model alone")
	flag.BoolVar(&c.frames, "frames", true, "serve a network beside, and ask it for frames and gradients; the device null has none")
	flag.BoolVar(&c.streams, "streams", false, "keep video streams of a file and of a camera with DDS beside, and hold their results to each other")
	flag.StringVar(&c.clip, "clip", "videoext/media/ffmpeg/testdata/drawn.mp4", "their frames, 24 of them")
	flag.StringVar(&c.camera, "camera", "bin/camera", "the camera's program")
	flag.StringVar(&c.memory, "memory", "", "its --memory: less than all models take has them loaded in turn")
	flag.IntVar(&c.frontends, "frontends", 2, "its --api-server-count")
	flag.IntVar(&c.clients, "clients", 16, "clients, each with one request at a time")
	flag.DurationVar(&c.duration, "duration", time.Hour, "how long; the first third without faults; 0: until all faults are done")
	flag.IntVar(&c.faults, "faults", 0, "how many faults; 0 with a duration: as many as fit")
	flag.DurationVar(&c.every, "every", 10*time.Second, "least time between two faults; in any case the server answers again before the next one")
	flag.StringVar(&c.signals, "signals", "KILL,SEGV,STOP", "what is sent, in turn")
	flag.StringVar(&c.roles, "roles", "executor,scheduler,frontend", "to whom, at random")
	flag.DurationVar(&c.silence, "hang-timeout", 3*time.Second, "the server's --hang-timeout")
	flag.Uint64Var(&c.seed, "seed", 1, "of what is asked, and who is struck")
	flag.BoolVar(&c.verbose, "verbose", false, "show the server's log")
	flag.Int64Var(&c.flatWithin, "flat-within", 32<<20, "bytes, or a seventh of its memory if that is more, that a process may grow")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c.frames = c.frames && c.device != "null"
	if _, err := soakAndPrint(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// soakAndPrint runs a server and prints what it saw; an error says what was wrong.
func soakAndPrint(ctx context.Context, c config) (*report, error) {
	r, err := soakServer(ctx, c)
	if r != nil {
		r.writeTables(os.Stdout)
	}
	if err == nil {
		err = r.verdict()
	}
	return r, err
}

// soakServer soaks a server and returns what it saw, if it came to see anything.
func soakServer(ctx context.Context, c config) (*report, error) {
	args, remove, err := writeModels(c)
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := startServer(c, args)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	r := newReport(c)
	t, err := newTraffic(c, s.url, r)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	traffic, stopTraffic := context.WithCancel(ctx)
	defer stopTraffic()
	asked := t.startClients(traffic)
	if c.streams {
		r.streams = newStreams(c, s.url)
		filmed, err := r.streams.startFollowing(traffic)
		if err != nil {
			return nil, err
		}
		s.camera = &r.streams.pid
		requests := asked
		both := make(chan struct{})
		go func() { // ends with traffic
			<-requests
			<-filmed
			close(both)
		}()
		asked = both
	}
	sampling, stopSampling := context.WithCancel(ctx)
	defer stopSampling()
	sampled := r.memory.startSampling(sampling, s, sampleEvery(c))
	if err = sendFaults(ctx, c, s, t, r, begun); err == nil {
		err = sleep(ctx, time.Until(begun.Add(c.duration)))
	}
	stopTraffic()
	<-asked
	stopSampling()
	<-sampled
	r.took = time.Since(begun)
	if err != nil {
		return r, err
	}
	if err := t.nothingLeft(); err != nil {
		return r, err
	}
	return r, s.stop()
}

// sleep waits for d, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(max(d, 0)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
