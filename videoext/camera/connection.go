package camera

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Server is where a camera's stream is: each session is one request of HTTP/2, whose body and answer go on side by side.
type Server struct {
	URL    string // http:// is HTTP/2 without TLS
	Stream string // its name on the server
	Key    string // of the server's API; may be empty
	TLS    *tls.Config
	// Dial connects, as over another link; nil: as net.Dialer does, within DialTimeout.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DialTimeout is how long it may take to connect.
const DialTimeout = 10 * time.Second

// Times of connections.
const (
	pingAfter   = 10 * time.Second // nothing has come
	pingTimeout = 10 * time.Second

	maxRefusal     = 4 << 10         // of an answer that is no session
	refusalTimeout = 3 * time.Second // to hear it
)

// check says what is wrong with the address, without connecting.
func (s *Server) sessionURL() (string, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("server %q is no address such as http://host:8000", s.URL)
	}
	if s.Stream == "" {
		return "", errors.New("the stream has no name")
	}
	return u.JoinPath("v1/video/streams", url.PathEscape(s.Stream), "camera").String(), nil
}

// Connect implements Peer.
func (s *Server) Connect(ctx context.Context, body io.ReadCloser) (Connection, error) {
	address, err := s.sessionURL()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	if s.Key != "" {
		request.Header.Set("Authorization", "Bearer "+s.Key)
	}
	c := &connection{}
	transport := s.newTransport(c)
	answer, err := transport.RoundTrip(request)
	if err != nil {
		transport.CloseIdleConnections()
		return nil, err
	}
	c.transport, c.body = transport, answer.Body
	c.Reader = bufio.NewReaderSize(answer.Body, 64<<10)
	if answer.StatusCode != http.StatusOK {
		defer c.Close()
		defer time.AfterFunc(refusalTimeout, func() { _ = answer.Body.Close() }).Stop() // it ends the reading
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))                  // what came of it is what there is to show
		return nil, &StatusError{answer.StatusCode, strings.TrimSpace(string(text))}
	}
	return c, nil
}

// newTransport makes connections for one session.
func (s *Server) newTransport(c *connection) *http.Transport {
	dial := s.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: DialTimeout}).DialContext
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		Protocols: protocols, TLSClientConfig: s.TLS, TLSHandshakeTimeout: DialTimeout, DisableCompression: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err == nil {
				c.setConn(conn)
			}
			return conn, err
		},
	}
}

// StatusError is an answer of HTTP that begins no session.
type StatusError struct {
	Code int
	Text string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answers %d %s", e.Code, http.StatusText(e.Code))
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// connection is a session's request.
type connection struct {
	*bufio.Reader
	transport *http.Transport
	body      io.Closer

	mu   sync.Mutex
	conn net.Conn
}

func (c *connection) setConn(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
}

// Unacknowledged implements Connection.
func (c *connection) Unacknowledged() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return unacknowledgedBytes(c.conn)
}

// Close implements Connection.
func (c *connection) Close() error {
	err := c.body.Close()
	c.transport.CloseIdleConnections()
	return err
}
