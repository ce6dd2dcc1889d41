package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxListing bounds the bytes of a repository's listing, and maxPages its parts.
const (
	maxListing = 32 << 20
	maxPages   = 1000
)

// client asks one hub. Its errors name hosts, never whole addresses: these may carry signatures.
type client struct {
	settings Settings
	model    Model
	http     *http.Client
	base     string // of all addresses
}

func newClient(s Settings, m Model) *client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = proxyFromEnv
	t.DialContext = (&net.Dialer{Timeout: s.Patience}).DialContext
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = s.Patience, s.Patience
	t.DisableCompression = true // sizes and checksums are those of the files
	return &client{s, m, &http.Client{Transport: &authorized{s, t}}, s.Endpoint.String()}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// proxyFromEnv is the environment's; what is wrong with it may hold a password.
func proxyFromEnv(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("invalid HTTPS_PROXY or HTTP_PROXY: want an address")
	}
	return u, nil
}

// authorized says to the endpoint who asks, and to nobody else: requests are redirected to other hosts.
type authorized struct {
	settings Settings
	next     *http.Transport
}

func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	r.Header.Del("Referer")
	if r.URL.Scheme == a.settings.Endpoint.Scheme && r.URL.Host == a.settings.Endpoint.Host {
		switch {
		case a.settings.user != nil: // as huggingface_hub has it, whose client prefers these, too
			password, _ := a.settings.user.Password()
			r.SetBasicAuth(a.settings.user.Username(), password)
		case a.settings.token != "":
			r.Header.Set("Authorization", "Bearer "+a.settings.token)
		}
	}
	return a.next.RoundTrip(r)
}

func (a *authorized) CloseIdleConnections() { a.next.CloseIdleConnections() }

// transportError is a server that was not reached, or was lost.
type transportError struct {
	host string
	err  error
}

func (e *transportError) Error() string {
	return fmt.Sprintf("cannot reach %s: %v; check the network, HF_ENDPOINT and HTTPS_PROXY, or copy the cache of a host that has the model", e.host, e.err)
}
func (e *transportError) Unwrap() error { return e.err }

var (
	errStalled  = errors.New("it stopped sending")
	errRedirect = errors.New("it redirects to an invalid address")
)

// getFromByte asks for an address, from a byte on. The body ends with an error when nothing comes for too long.
func (c *client) getFromByte(ctx context.Context, address string, from int64) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		cancel(nil)
		return nil, errEndpoint
	}
	r.Header.Set("User-Agent", "prefillonly")
	r.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		r.Header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		cancel(nil)
		return nil, c.explainUnreached(err)
	}
	if resp.StatusCode >= 300 {
		_ = resp.Body.Close()
		cancel(nil)
		return nil, &refusal{resp.StatusCode, resp.Header.Get("X-Error-Code"), resp.Header.Get("X-Error-Message")}
	}
	resp.Body = &body{
		ReadCloser: resp.Body, ctx: ctx, cancel: cancel, stall: c.settings.Stall, host: resp.Request.URL.Host,
		timer: time.AfterFunc(c.settings.Stall, func() { cancel(errStalled) }),
	}
	return resp, nil
}

// explainUnreached names the host that was not reached, and the cause without addresses.
func (c *client) explainUnreached(err error) error {
	host := c.settings.Endpoint.Host
	var asked *url.Error
	if errors.As(err, &asked) {
		if u, e := url.Parse(asked.URL); e == nil && u.Host != "" {
			host = u.Host
		}
		err = asked.Err
	}
	if strings.Contains(err.Error(), "Location") {
		err = errRedirect
	}
	return &transportError{host, err}
}

// body is an answer's, which ends when its server sends nothing for too long.
type body struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // of this one request
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
	host   string
}

func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.stall)
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		if errors.Is(context.Cause(b.ctx), errStalled) {
			err = errStalled
		}
		err = &transportError{b.host, err}
	}
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// isTransient says that another try may succeed.
func isTransient(err error) bool {
	var refused *refusal
	var transport *transportError
	return errors.As(err, &refused) && refused.isTransient() || errors.As(err, &transport)
}

// waitRetry waits before another try, if there is to be one.
func (c *client) waitRetry(ctx context.Context, try, tries int, err error) bool {
	if try+1 >= tries || !isTransient(err) || ctx.Err() != nil {
		return false
	}
	pause := c.settings.pause
	if pause == 0 {
		pause = time.Second / 2
	}
	select {
	case <-time.After(pause << try):
		return true
	case <-ctx.Done():
		return false
	}
}

// explainError is an error as users read it.
func (c *client) explainError(err error, file string) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.explainRefusal(c.model, c.base, file, c.settings.token != "" || c.settings.user != nil)
	}
	return err
}

// listed is a file as the hub tells of it, in the two ways it does so.
type listed struct {
	Name   string `json:"rfilename"`
	Path   string `json:"path"`
	Type   string `json:"type"`
	Size   *int64 `json:"size"`
	BlobID string `json:"blobId"`
	OID    string `json:"oid"`
	LFS    *struct {
		SHA256 string `json:"sha256"`
		OID    string `json:"oid"`
		Size   int64  `json:"size"`
	} `json:"lfs"`
}

func (f *listed) toFile() File {
	own := File{Path: f.Name + f.Path, Size: -1, Digest: f.BlobID + f.OID}
	if f.Size != nil {
		own.Size = *f.Size
	}
	if f.LFS != nil {
		own.Size, own.Digest = f.LFS.Size, f.LFS.SHA256+f.LFS.OID
	}
	return own
}

// listFiles learns which commit a revision is, and its files.
func (c *client) listFiles(ctx context.Context, revision string) (commit string, l listing, err error) {
	var info struct {
		SHA      string   `json:"sha"`
		Siblings []listed `json:"siblings"`
	}
	left := int64(maxListing)
	if _, err := c.getJSON(ctx, c.base+"/api/models/"+c.model.ID+"/revision/"+url.PathEscape(revision)+"?blobs=true", &left, &info); err != nil {
		return "", nil, &listingError{err}
	}
	if !isCommit.MatchString(info.SHA) || isCommit.MatchString(revision) && info.SHA != revision {
		return "", nil, &listingError{fmt.Errorf("%s gives no commit of revision %q: not a hub; check HF_ENDPOINT", c.base, revision)}
	}
	l = listing{}
	for _, f := range info.Siblings {
		own := f.toFile()
		l[own.Path] = own
	}
	if f, ok := l[configFile]; ok && f.checkValid() == nil {
		return info.SHA, l, nil
	}
	if l, err = c.fetchListing(ctx, info.SHA, &left); err != nil {
		return "", nil, &listingError{err}
	}
	return info.SHA, l, nil
}

// fetchListing is the listing of a commit in the form that has checksums on every hub.
func (c *client) fetchListing(ctx context.Context, commit string, left *int64) (listing, error) {
	l, base := listing{}, c.base+"/api/models/"+c.model.ID+"/tree/"+commit
	address := base + "?recursive=true"
	for range maxPages {
		var files []listed
		next, err := c.getJSON(ctx, address, left, &files)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if own := f.toFile(); f.Type == "file" {
				l[own.Path] = own
			}
		}
		if next == "" {
			return l, nil
		}
		u, err := url.Parse(next)
		if err != nil {
			return nil, errRedirect
		}
		address = base + "?" + u.RawQuery
	}
	return nil, fmt.Errorf("listing has more than %d pages: not a repository of one model", maxPages)
}

// getJSON gets JSON of at most *left bytes, and the address of the next page.
func (c *client) getJSON(ctx context.Context, address string, left *int64, into any) (next string, err error) {
	const tries = 3
	for try := 0; ; try++ {
		var text []byte
		if text, next, err = c.read(ctx, address, *left); err == nil {
			*left -= int64(len(text))
			if err := json.Unmarshal(text, into); err != nil {
				return "", fmt.Errorf("%s is not a hub (%w): check HF_ENDPOINT", c.base, err)
			}
			return next, nil
		}
		if !c.waitRetry(ctx, try, tries, err) {
			return "", c.explainError(err, "")
		}
	}
}

func (c *client) read(ctx context.Context, address string, most int64) (text []byte, next string, err error) {
	resp, err := c.getFromByte(ctx, address, 0)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(resp.Body, most+1)); err != nil {
		return nil, "", err
	}
	if int64(len(text)) > most {
		return nil, "", fmt.Errorf("listing has more than %d MiB: not a repository of one model", maxListing>>20)
	}
	return text, nextPage(resp.Header.Get("Link")), nil
}

// nextPage is the address in a Link header of the next page.
func nextPage(link string) string {
	for one := range strings.SplitSeq(link, ",") {
		address, parameters, _ := strings.Cut(strings.TrimSpace(one), ">")
		if strings.HasPrefix(address, "<") && strings.Contains(parameters, `rel="next"`) {
			return address[1:]
		}
	}
	return ""
}

// fileAddress is the address of a file of a commit.
func (c *client) fileAddress(commit string, f File) string {
	parts := strings.Split(f.Path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return c.base + "/" + c.model.ID + "/resolve/" + commit + "/" + strings.Join(parts, "/")
}
