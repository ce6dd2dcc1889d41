package ffmpeg

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/internal/reach"
)

// Address is an rtsp:// or rtsps:// URL, read strictly, and shown without what may be a secret in it: user, password, path and query.
type Address struct {
	Host string // a name, or an address without brackets

	scheme string
	user   string // as it is written, with its @; may be empty
	port   uint16
	rest   string // path and query, as they are written
}

// maxAddress is how many bytes an address may have, and maxUser its user and password: libavformat cuts off what is longer.
const (
	maxAddress = 1000
	maxUser    = 120
)

// ports are those of schemes.
var ports = map[string]uint16{"rtsp": 554, "rtsps": 322}

// IsRTSP says whether a source is meant as a URL, and not as a file.
func IsRTSP(source string) bool {
	scheme, _, colon := strings.Cut(source, ":")
	return strings.Contains(source, "://") || colon && ports[strings.ToLower(scheme)] != 0
}

// ParseAddress reads an address. Its errors show nothing of it.
func ParseAddress(text string) (*Address, error) {
	scheme, after, ok := strings.Cut(text, "://")
	a := &Address{scheme: strings.ToLower(scheme)}
	if !ok || ports[a.scheme] == 0 {
		return nil, errors.New("want an rtsp:// or rtsps:// URL")
	}
	if err := checkText(text, after); err != nil {
		return nil, err
	}
	authority := after
	if i := strings.IndexAny(after, "/?"); i >= 0 {
		authority, a.rest = after[:i], after[i:]
	}
	if i := strings.IndexByte(authority, '@') + 1; i > 0 {
		a.user, authority = authority[:i], authority[i:]
	}
	if len(a.user) > maxUser {
		return nil, fmt.Errorf("its user and password have %d bytes, the limit is %d", len(a.user), maxUser)
	}
	if err := a.setHost(authority); err != nil {
		return nil, err
	}
	if _, err := url.Parse(text); err != nil {
		return nil, errors.New("it is no URL; a % that begins no code of two hexadecimal digits is to be written as %25, and the address as scheme://user:password@host:port/path")
	}
	return a, nil
}

// checkText refuses what is read one way here and another way elsewhere: what was meant as a part of a password would be a host.
func checkText(text, after string) error {
	at := strings.IndexByte(after, '@')
	end := strings.IndexAny(after, "/?")
	switch {
	case len(text) > maxAddress:
		return fmt.Errorf("it has %d bytes, the limit is %d", len(text), maxAddress)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\\\"<>^`{|}", r) }):
		return errors.New("it has a space, or another character that URLs have not; percent-encode it, a space as %20")
	case strings.Contains(text, "#"):
		return errors.New("it has a #, which ends a URL; percent-encode it as %23 where it is meant in a password, a user or a path")
	case strings.Count(after, "@") > 1 || at >= 0 && end >= 0 && end < at:
		return errors.New("it has an @ (or a / or ? before it) that may be meant in a password; percent-encode them there, @ as %40, / as %2F and ? as %3F, and each @ behind the host, too")
	}
	return nil
}

// setHost reads host and port.
func (a *Address) setHost(authority string) error {
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i+1:]
	}
	a.port = ports[a.scheme]
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return errors.New("its port is not 1 to 65535; a : or @ of a user or password is to be percent-encoded, as %3A and %40")
		}
		a.port = uint16(n)
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		address, err := netip.ParseAddr(strings.Replace(inner, "%25", "%", 1))
		if !ok || err != nil || address.Is4() {
			return errors.New("its host in brackets is not an IPv6 address")
		}
		a.Host = address.String()
		return nil
	}
	if address, err := netip.ParseAddr(host); (err != nil || !address.Is4()) && !reach.IsName(host) {
		return errors.New("its host is neither a name nor an address: names have letters, digits, dots and dashes, IPv4 addresses four decimal numbers, and IPv6 addresses brackets")
	}
	a.Host = host
	return nil
}

// mark is of this process, so that nobody can try passwords on what is shown.
var mark = func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return key
}()

// String shows the scheme, the host, the port, and a mark that tells addresses of one host apart; nothing else of it.
func (a *Address) String() string {
	mac := hmac.New(sha256.New, mark)
	mac.Write([]byte(a.user + a.rest))
	return a.scheme + "://" + a.place(a.Host) + "/#" + hex.EncodeToString(mac.Sum(nil)[:4])
}

// ShowAddress is a source as anybody may see it: a URL as its Address, and a file as it is.
func ShowAddress(source string) string {
	if !IsRTSP(source) {
		return source
	}
	a, err := ParseAddress(source)
	if err != nil {
		return "a URL that is not of RTSP"
	}
	return a.String()
}

func (a *Address) place(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(int(a.port)))
}

// At is the whole URL, secrets included, with an address in the place of its host.
func (a *Address) At(address netip.Addr) string {
	return a.scheme + "://" + a.user + a.place(address.String()) + a.rest
}

// Redirected is where the camera at an address of a sends to. It is the same host, and not in clear text what was not; who asks is the same.
func (a *Address) Redirected(location string, at netip.Addr) (*Address, error) {
	to, err := ParseAddress(location)
	switch {
	case err != nil:
		return nil, fmt.Errorf("it redirects to an invalid address: %w", err)
	case !strings.EqualFold(to.Host, a.Host) && to.Host != at.String():
		return nil, errors.New("it redirects to another host; name that in the source if it is the camera")
	case a.scheme == "rtsps" && to.scheme != a.scheme:
		return nil, errors.New("it redirects from rtsps:// to rtsp://, which is not encrypted")
	}
	to.Host = a.Host
	if to.user == "" {
		to.user = a.user
	}
	return to, nil
}
