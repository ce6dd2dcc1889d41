//go:build cgo && !noffmpeg

package ffmpeg

// #cgo LDFLAGS: -ldl
// #include "library.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// open opens the libraries, once for all.
var open = sync.OnceValue(func() error {
	var message [C.PF_ERROR_SIZE]C.char
	if C.pf_library_open(&message[0], C.size_t(len(message))) != 0 {
		return fmt.Errorf("video, and all sound but WAV, needs FFmpeg's libraries libavutil.so.%d, libavcodec.so.%d, libavformat.so.%d and libswscale.so.%d, which cannot be opened: %s; on Debian or Ubuntu install libavformat%d and libswscale%d",
			C.LIBAVUTIL_VERSION_MAJOR, C.LIBAVCODEC_VERSION_MAJOR, C.LIBAVFORMAT_VERSION_MAJOR, C.LIBSWSCALE_VERSION_MAJOR, C.GoString(&message[0]), C.LIBAVFORMAT_VERSION_MAJOR, C.LIBSWSCALE_VERSION_MAJOR)
	}
	return nil
})

// Available says why this program cannot read video here; nil if it can.
func Available() error { return open() }

func failure(message *C.char) error { return errors.New(C.GoString(message)) }

// interruptibly calls into C so that it returns soon when ctx ends, which interrupt tells it.
func interruptibly(ctx context.Context, interrupt func(yes C.int), call func() C.int) C.int {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		interrupt(1)
		close(done)
	})
	result := call()
	if !stop() {
		<-done // no interruption comes later
		interrupt(0)
	}
	return result
}
