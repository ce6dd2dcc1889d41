package mq

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	zmq "github.com/pebbe/zmq4"
)

// maxIPCPath is the longest path a unix socket can have (sun_path less its final zero).
const maxIPCPath = 107

// checkEndpoint refuses endpoints that cannot work or would be open to strangers.
func checkEndpoint(endpoint string, o *Options) error {
	host, isTCP, err := parseEndpoint(endpoint)
	switch {
	case err != nil || !isTCP || o.Curve != nil:
		return err
	case !isLoopback(host):
		return fmt.Errorf("mq: %s can be reached from other hosts, so it needs CURVE keys: make them with `prefillonly keygen`", endpoint)
	case !o.Unauthenticated:
		return fmt.Errorf("mq: every user of this machine can reach %s, read the prompts and forge answers, so it needs CURVE keys "+
			"(`prefillonly keygen`); or take an ipc:///path, which is private, or --allow-unauthenticated-tcp", endpoint)
	}
	return nil
}

// OnThisMachine says that nobody on another host reaches an endpoint.
func OnThisMachine(endpoint string) bool {
	host, isTCP, err := parseEndpoint(endpoint)
	return err == nil && (!isTCP || isLoopback(host))
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// parseEndpoint refuses endpoints that cannot work, and returns the host of one of tcp.
func parseEndpoint(endpoint string) (host string, isTCP bool, err error) {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	switch {
	case ok && scheme == "ipc" && rest != "":
		if len(rest) > maxIPCPath {
			err = fmt.Errorf("mq: the path of %s has %d bytes, a unix socket's has at most %d: choose a shorter directory", endpoint, len(rest), maxIPCPath)
		}
		return "", false, err
	case ok && scheme == "tcp":
		if host, _, err = net.SplitHostPort(rest); err != nil {
			err = fmt.Errorf("mq: endpoint %s: %w", endpoint, err)
		}
		return host, true, err
	}
	return "", false, fmt.Errorf("mq: endpoint %q is neither ipc:///path nor tcp://host:port", endpoint)
}

// bindSocket lets a socket listen. The directory of an ipc socket is made when it is missing, and both are
// open to their owner alone.
func bindSocket(soc *zmq.Socket, endpoint string) error {
	path, isIPC := strings.CutPrefix(endpoint, "ipc://")
	if isIPC {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
	}
	if err := soc.Bind(endpoint); err != nil || !isIPC {
		return err
	}
	return os.Chmod(path, 0o600)
}

// setHeartbeats lets a broken tcp path be noticed; a unix socket breaks with its process.
func setHeartbeats(soc *zmq.Socket, endpoint string) error {
	if !strings.HasPrefix(endpoint, "tcp://") {
		return nil
	}
	return firstError(
		soc.SetHeartbeatIvl(time.Second),
		soc.SetHeartbeatTimeout(5*time.Second),
	)
}
