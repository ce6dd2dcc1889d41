package supervise

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Sign is a child's sign of life.
type Sign byte

// The signs, each of which includes those before it.
const (
	Alive   Sign = iota + 1 // its work goes on, or it waits for some
	Healthy                 // it can come to answer requests
	Ready                   // it answers requests now
)

// oftenEnough is how long a child keeps a sign to itself that it has just given.
const oftenEnough = 100 * time.Millisecond

// voice is where this process gives its signs, if it was started by Child.
var voice struct {
	open  bool         // set once
	began time.Time    // set once
	sign  atomic.Int32 // the last that was given
	at    atomic.Int64 // when that was, in nanoseconds from began
}

// Watch ties this process to its parent: it ends when the parent is gone, however the parent went, and
// Say reaches the parent. In a process that was not started by Child it does nothing. The goroutine
// lives as long as the process.
func Watch() {
	fd, err := strconv.Atoi(os.Getenv(lifelineEnv))
	if err != nil {
		return
	}
	syscall.CloseOnExec(fd)
	syscall.CloseOnExec(signFD)
	voice.began, voice.open = time.Now(), syscall.SetNonblock(signFD, true) == nil
	lifeline := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = lifeline.Read(make([]byte, 1)) // nothing is ever written
		os.Exit(1)
	}()
}

// Say gives the parent a sign of life. It is cheap and never blocks; a process calls it where its work
// goes on, so that it falls silent when that is stuck. Several goroutines may call it.
func SendSign(s Sign) {
	if !voice.open {
		return
	}
	now := int64(time.Since(voice.began))
	if last := voice.at.Load(); Sign(voice.sign.Load()) == s && now-last < int64(oftenEnough) {
		return
	}
	voice.at.Store(now)
	voice.sign.Store(int32(s))
	_, _ = syscall.Write(signFD, []byte{byte(s)}) // a full pipe holds signs enough
}
