package ffmpeg

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// secret is in the places of addresses that cameras have passwords in.
const secret = "SECRETREST"

// TestShown: only the scheme, the host and the port are shown, and a mark that tells two addresses apart.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"rtsp://admin:" + secret + "@127.0.0.1:9/x":                            "rtsp://127.0.0.1:9/#",
		"RTSP://" + secret + "@camera/x":                                       "rtsp://camera:554/#",
		"rtsps://u:a%40b" + secret + "%23@[2001:DB8::1]/x":                     "rtsps://[2001:db8::1]:322/#",
		"rtsp://127.0.0.1:9/user=admin_password=" + secret + "_channel=1.sdp":  "rtsp://127.0.0.1:9/#",
		"rtsp://127.0.0.1:9/user=admin_password=" + secret + "_channel=1.sdp?": "rtsp://127.0.0.1:9/#",
		"rtsp://127.0.0.1:9/x?password=" + secret:                              "rtsp://127.0.0.1:9/#",
		"rtsp://127.0.0.1:9?token=" + secret:                                   "rtsp://127.0.0.1:9/#",
		"rtsp://[fe80::1%25eth0]/" + secret:                                    "rtsp://[fe80::1%eth0]:554/#",
	} {
		a, err := ParseAddress(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		shown := a.String()
		if mark, ok := strings.CutPrefix(shown, want); !ok || len(mark) != 8 || shown != ShowAddress(text) {
			t.Errorf("%s is shown as %s", text, shown)
		}
		other, err := ParseAddress(text + "&")
		if err != nil || other.String() == shown {
			t.Errorf("%s and another address are both %s, %v", text, shown, err)
		}
	}
	if ShowAddress("clips/street.mp4") != "clips/street.mp4" || strings.Contains(ShowAddress("http://u:"+secret+"@h/"), secret) || strings.Contains(ShowAddress("rtsp:"+secret), secret) {
		t.Error("a file is not shown as it is, or a URL that is not of RTSP shows a secret")
	}
}

// TestRefused: what may be meant as another address is refused with the code to write, and nothing of it is shown.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"rtsp://admin:pre@" + secret + "#1@127.0.0.1:9/x": "%23",
		"rtsp://admin:p#" + secret + "@127.0.0.1:9/x":     "%23",
		"rtsp://admin:p@" + secret + "@127.0.0.1:9/x":     "%40",
		"rtsp://admin:p/" + secret + "@127.0.0.1:9/x":     "%2F",
		"rtsp://admin:12/" + secret + "@127.0.0.1:9/x":    "%2F",
		"rtsp://admin:p?" + secret + "@127.0.0.1/x":       "%3F",
		"rtsp://a:p@" + secret + "/w@127.0.0.1/x":         "%40",
		"rtsp://a:p @" + secret + "/":                     "%20",
		"rtsp://a:p%" + secret + "@h/":                    "%25",
		"rtsp://admin:" + secret:                          "%3A",
		"rtsp://" + secret + "\r\nX: 1/":                  "percent-encode",
		"rtsp://2852039166/" + secret:                     "neither a name nor an address",
		"rtsp://0xa9fea9fe/" + secret:                     "neither a name nor an address",
		"rtsp://169.254.43518/" + secret:                  "neither a name nor an address",
		"rtsp://0251.0376.0251.0376/" + secret:            "neither a name nor an address",
		"rtsp:///" + secret:                               "neither a name nor an address",
		"rtsp://[127.0.0.1]/" + secret:                    "not an IPv6",
		"rtsp://::1/" + secret:                            "neither a name nor an address",
		"http://user:" + secret + "@h/x":                  "want an rtsp://",
		"rtsp:/" + secret:                                 "want an rtsp://",
		"rtsp://h:0/" + secret:                            "port",
		"rtsp://" + strings.Repeat("u", 130) + "@h/":      "131 bytes",
		"rtsp://h/" + strings.Repeat("u", 1000):           "1009 bytes",
	} {
		a, err := ParseAddress(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s is %v; %v, want %q", text, a, err, want)
		}
	}
}

// FuzzParse: an address has the host that Go's parser of URLs finds in it, as written and at an address, and its path and user.
func FuzzParse(f *testing.F) {
	f.Add("rtsp://u:p@h:1/x?y")
	f.Add("rtsps://[::1]/")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err != nil {
			return
		}
		u, err := url.Parse(text)
		if err != nil || !strings.EqualFold(u.Hostname(), a.Host) && netip.MustParseAddr(u.Hostname()).String() != a.Host {
			t.Fatalf("%q: host %q, want that of %v, %v", text, a.Host, u, err)
		}
		at, err := url.Parse(a.At(netip.MustParseAddr("192.0.2.1")))
		if err != nil || at.Hostname() != "192.0.2.1" || at.RequestURI() != u.RequestURI() || at.User.String() != u.User.String() {
			t.Fatalf("%q at an address is %v, %v", text, at, err)
		}
	})
}

// TestRedirected: redirections lead to the same host, and take its user along.
func TestRedirected(t *testing.T) {
	at := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct{ from, to, want string }{
		{"rtsp://u:p@camera/x", "rtsp://camera:8554/y", "rtsp://u:p@192.0.2.1:8554/y"},
		{"rtsp://u:p@camera/x", "rtsp://Camera/y?z", "rtsp://u:p@192.0.2.1:554/y?z"},
		{"rtsp://u:p@camera/x", "rtsps://o:q@192.0.2.1/y", "rtsps://o:q@192.0.2.1:322/y"},
		{"rtsp://u:p@camera/x", "rtsp://192.0.2.2/y", ""},
		{"rtsp://u:p@camera/x", "rtsp://169.254.169.254/y", ""},
		{"rtsp://u:p@camera/x", "http://camera/y", ""},
		{"rtsp://u:p@camera/x", "/y", ""},
		{"rtsps://u:p@camera/x", "rtsp://camera/y", ""},
	} {
		from, err := ParseAddress(c.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := from.Redirected(c.to, at)
		if (err == nil) != (c.want != "") || err == nil && (to.At(at) != c.want || to.Host != from.Host) {
			t.Errorf("%s to %s: %v, %v", c.from, c.to, to, err)
		}
	}
}
