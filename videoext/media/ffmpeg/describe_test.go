//go:build cgo && !noffmpeg

package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/mutate"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
)

var mutatedDescriptions = flag.Int("descriptions", 1000, "descriptions that TestMutatedDescriptions has a camera give")

// descriptions are of cameras, in SDP, beside that of the tests'.
var descriptions = []string{
	"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=cam\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\na=control:*\r\na=range:npt=0-12.5\r\nm=video 0 RTP/AVP 96\r\nb=AS:4000\r\na=framerate:12.5\r\na=rtpmap:96 H265/90000\r\n" +
		"a=fmtp:96 sprop-vps=QAEMAf//AWAAAAMAkAAAAwAAAwBdlZgJ;sprop-sps=QgEBAWAAAAMAkAAAAwAAAwBdoAKAgC0WWVmkkyvAWg==;sprop-pps=RAHBcrRiQA==\r\na=control:trackID=1\r\n" +
		"m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/16000/1\r\na=fmtp:97 streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1408\r\na=control:trackID=2\r\n",
	"v=0\r\no=- 1 1 IN IP6 ::1\r\ns=-\r\nc=IN IP6 ::\r\nt=0 0\r\nm=video 0 RTP/AVP 26\r\na=x-dimensions:640,480\r\na=cliprect:0,0,480,640\r\na=control:track1\r\nm=application 0 RTP/AVP 107\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\na=control:track2\r\n",
	"v=0\r\nm=video 0 RTP/AVP 33\r\na=control:track1\r\n",
	"v=0\r\nm=video 5000/2 RTP/SAVP 98 99\r\nc=IN IP4 239.0.0.1/16/2\r\na=rtpmap:98 MP4V-ES/90000\r\na=fmtp:98 profile-level-id=1; config=000001B001000001B58913000001000000012000C48D8800F528045A1463000001B24C61766335\r\na=source-filter: incl IN IP4 239.0.0.1 127.0.0.1\r\n" +
		"a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj|2^20|1:32\r\na=rtcp-mux\r\n",
}

// ofDescriptions are values that a description should not have, or only seldom.
var ofDescriptions = []string{
	"", "0", "-1", "1", "96", "65536", "4294967295", "9223372036854775808", "1e400", "nan", strings.Repeat("9", 300), strings.Repeat("A", 5000), strings.Repeat("QAEM", 2000), "%s%n",
	"127.0.0.1", "0.0.0.0", "::1", "rtsp://127.0.0.1:1/", "file", "H264", "H265", "JPEG", "MP2T", "MPEG4-GENERIC", "X-PN-REALVIDEO", "x-pn-tng", "VORBIS", "THEORA", "raw", "udp", "video", "m", "a",
	"m=video 0 RTP/AVP 96\r\n", strings.Repeat("m=video 0 RTP/AVP 96\r\n", 40), strings.Repeat("a=rtpmap:96 H264/90000\r\n", 200), "\r\n", "\x00", ";", "=",
}

// TestMutatedDescriptions: whatever a camera says that it is, opening it and reading it end, in frames of a sane size or an error, and take no memory for good.
func TestMutatedDescriptions(t *testing.T) {
	pick := rand.New(rand.NewPCG(1, uint64(*mutatedDescriptions)))
	camera := &rtsptest.Camera{Units: rtsptest.Drawn()[:2], HangUp: true}
	seeds := append([]string{camera.Description()}, descriptions...)
	m := &mutate.Mutator{Rand: pick, Seeds: seeds, Values: ofDescriptions, Marks: "\r\n :;=/,"}
	var says atomic.Value
	camera.Says = func() string { return says.Load().(string) }
	address, tooLarge := camera.Start(t), errors.New("too large")
	opened, before := 0, resident(t)
	for range *mutatedDescriptions {
		text := m.Mutate(seeds[pick.IntN(len(seeds))])
		says.Store(text)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		c, err := Open(ctx, address, Options{Timeout: 2 * time.Second, Admit: func(info Info) error {
			if info.Memory > 64<<20 {
				return tooLarge
			}
			return nil
		}})
		if err == nil {
			opened++
			for err == nil {
				f, failed := c.Next(ctx)
				if err = failed; err == nil {
					err = f.Check()
				}
			}
			_ = c.Close() // it was read only
		}
		if ctx.Err() != nil || strings.Contains(err.Error(), "secret") {
			t.Fatalf("%q: %v", text, err)
		}
		cancel()
	}
	t.Logf("%d of %d cameras were opened", opened, *mutatedDescriptions)
	if opened < *mutatedDescriptions/50 || camera.Connected() != *mutatedDescriptions {
		t.Errorf("%d cameras were opened, over %d connections", opened, camera.Connected())
	}
	if now := resident(t); now > before+128<<20 {
		t.Errorf("the process took %d bytes before, and %d since", before, now)
	}
}

// resident is how many bytes the process has in memory.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
