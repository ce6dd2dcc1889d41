package blob

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"time"
)

// serveNet lets readers of other hosts reach the store over TLS. They know it by the hash of its certificate, and
// it knows them by the secrets of the blobs they ask for; both are in names.
func (s *Store) serveNet(listen, address string) (*server, error) {
	cert, err := newCertificate()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	if address == "" {
		address = l.Addr().String()
	}
	s.place = place{address: address, key: keyOf(cert.Certificate[0])}
	if _, err := parseName(name{place: s.place, secret: secret{1}}.String()); err != nil {
		return nil, errors.Join(fmt.Errorf("%q is no HOST:PORT to reach this process at", address), l.Close())
	}
	secure := tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
	v := &server{store: s, listener: secure, idle: idleNet}
	v.greet = func(conn net.Conn) error { return conn.(*tls.Conn).Handshake() }
	return v.start(), nil
}

// newCertificate makes a key pair, in the form that TLS wants; only its hash is ever looked at.
func newCertificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

// keyOf is what is known of a certificate.
func keyOf(certificate []byte) string {
	hash := sha256.Sum256(certificate)
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

// dialNet connects to a store, and to no other.
func dialNet(p place) (*tls.Conn, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: dialTimeout}, "tcp", p.address, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // there is no authority: the certificate itself is known
		VerifyConnection: func(state tls.ConnectionState) error {
			if keyOf(state.PeerCertificates[0].Raw) != p.key {
				return fmt.Errorf("%w: another process is at %s now", ErrGone, p.address)
			}
			return nil
		},
	})
	if err != nil && !errors.Is(err, ErrGone) {
		err = fmt.Errorf("%w: %w", ErrAway, err)
	}
	return conn, err
}

// distant is a store of another host, which is asked for bytes.
type distant struct {
	place place

	mu     sync.Mutex
	conn   *tls.Conn // guarded by mu; nil before the first request and after a failed one
	failed error     // guarded by mu; why the store could not be reached
	retry  time.Time // guarded by mu; when to try again
	closed bool      // guarded by mu
}

func (s *distant) read(n *name, dst []byte) error { return s.sendRequest(opRead, n, dst) }

func (s *distant) release(n *name) error { return s.sendRequest(opRelease, n, nil) }

// sendRequest makes a request over the connection that is there, or over a new one should that have ended meanwhile.
func (s *distant) sendRequest(op uint8, n *name, dst []byte) error {
	r := &request{op, n.offset, n.secret}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.conn != nil
	err := s.requestOnce(r, dst)
	if old && errors.Is(err, ErrAway) {
		return s.requestOnce(r, dst)
	}
	return err
}

// requestOnce makes a request, under mu.
func (s *distant) requestOnce(r *request, dst []byte) (err error) {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.conn == nil && time.Now().Before(s.retry):
		return s.failed
	case s.conn == nil:
		if s.conn, s.failed = dialNet(s.place); s.failed != nil {
			s.conn, s.retry = nil, time.Now().Add(retryAfter)
			return s.failed
		}
	}
	_ = s.conn.SetDeadline(time.Now().Add(ioTimeout))
	size := uint64(len(dst))
	if err = binary.Write(s.conn, binary.LittleEndian, r); err == nil && r.Op == opRead {
		err = binary.Read(s.conn, binary.LittleEndian, &size)
	}
	if err == nil && size == uint64(len(dst)) {
		_, err = io.ReadFull(s.conn, dst)
	}
	switch {
	case err != nil:
		s.hangUp()
		return fmt.Errorf("%w: %w", ErrAway, err)
	case size == gone:
		return errReleased
	case size != uint64(len(dst)):
		s.hangUp() // the bytes follow, however many
		return fmt.Errorf("%w: %d bytes", ErrSize, size)
	}
	return nil
}

// hangUp closes the connection, under mu.
func (s *distant) hangUp() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

func (s *distant) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.hangUp()
}
