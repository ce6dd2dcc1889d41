package supervise

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// How a silent process is judged. It is looked at looksPerSilence times in the time that it may be silent.
// One that waits for a processor is excused at each look that finds it so, and one that computes where it is
// at work, up to patience times that time.
const (
	looksPerSilence = 10
	patience        = 10
	workShare       = 0.05    // of a processor, used since the last look, is work; heartbeats take less than a tenth of that
	waitShare       = 0.5     // of the time since the last look, waited for a processor: the machine is overloaded
	workBytes       = 1 << 20 // read since the last look are work: a model that loads from a slow disk
)

// vigil watches one process.
type vigil struct {
	heard atomic.Int64 // signs so far

	// owned by watch
	seen  int64 // of heard
	quiet int   // looks in a row without a new sign
	idle  int   // those of them, at the end of the row, that found no work either
	done  work  // at the last look
}

// listenSigns takes in the signs of a process until its pipe is closed.
func (c *Child) listenSigns(v *vigil, signs *os.File) {
	buf := make([]byte, 64)
	for {
		n, err := signs.Read(buf)
		if err != nil {
			return
		}
		v.heard.Add(int64(n))
		c.hangup.noteAlive()
		if c.Said != nil {
			c.Said(Sign(buf[n-1]))
		}
	}
}

// watchSilence kills a process that is silent for longer than c.Silence, until it ended or is told to. It counts looks
// rather than time, so that no child has to answer for a time in which this process, or the whole
// machine, stood still.
func (c *Child) watchSilence(v *vigil, p *os.Process, stop context.Context, ended <-chan struct{}) {
	if c.Silence <= 0 {
		return
	}
	every := c.Silence / looksPerSilence
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-stop.Done():
			return
		case <-tick.C:
		}
		v.countLook(c.Computes, every, func() work { return workOf(p.Pid) })
		if v.idle < looksPerSilence && v.quiet < patience*looksPerSilence {
			continue
		}
		c.Log.Error("process gives no sign of life and is killed", zap.String("process", c.Name),
			zap.Duration("silent", time.Duration(v.quiet)*every), zap.Bool("computing", v.idle == 0))
		c.stuck.Store(true)
		_ = p.Kill() // it may have ended
		return
	}
}

// countLook counts a look at a process, which is excused if it cannot work, or if it computes and works.
func (v *vigil) countLook(computes bool, every time.Duration, measure func() work) {
	if heard := v.heard.Load(); heard != v.seen {
		v.seen, v.quiet, v.idle, v.done = heard, 0, 0, work{}
		return
	}
	v.quiet++
	v.idle++
	before := v.done
	v.done = measure()
	if before != (work{}) && v.done.excusesSilence(before, computes, every) {
		v.idle = 0
	}
}

// work is what a process has done since its start.
type work struct {
	processor time.Duration // used
	waited    time.Duration // for a processor, of all threads that live
	read      int64         // bytes
}

func (w work) excusesSilence(before work, computes bool, time time.Duration) bool {
	used, waited, read := w.processor-before.processor, w.waited-before.waited, w.read-before.read
	return float64(waited) >= waitShare*float64(time) ||
		computes && (float64(used) >= workShare*float64(time) || read >= workBytes)
}

// clockTick is the unit of times in /proc.
const clockTick = 10 * time.Millisecond

// workOf reads what a process has done; nothing of what cannot be read.
func workOf(pid int) work {
	var w work
	proc := "/proc/" + strconv.Itoa(pid)
	stat, _ := os.ReadFile(proc + "/stat")
	if fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(fields) > 12 {
		for _, field := range fields[11:13] { // utime and stime
			ticks, _ := strconv.ParseInt(string(field), 10, 64)
			w.processor += time.Duration(ticks) * clockTick
		}
	}
	threads, _ := filepath.Glob(proc + "/task/*/schedstat")
	for _, file := range threads {
		var ran, waited int64 // nanoseconds
		text, _ := os.ReadFile(file)
		_, _ = fmt.Sscan(string(text), &ran, &waited)
		w.waited += time.Duration(waited)
	}
	io, _ := os.ReadFile(proc + "/io")
	for line := range bytes.Lines(io) {
		var n int64
		for _, format := range []string{"rchar: %d", "read_bytes: %d"} {
			if _, err := fmt.Sscanf(string(line), format, &n); err == nil {
				w.read += n
			}
		}
	}
	return w
}
