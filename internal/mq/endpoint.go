package mq

import (
	"fmt"
	"net"
	"strings"
	"time"

	zmq "github.com/pebbe/zmq4"
)

// maxIPCPath is the longest path a unix socket can have (sun_path less its final zero).
const maxIPCPath = 107

// checkEndpoint refuses endpoints that cannot work or would be open to strangers.
func checkEndpoint(endpoint string, curve *Curve) error {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	switch {
	case ok && scheme == "ipc" && rest != "":
		if len(rest) > maxIPCPath {
			return fmt.Errorf("mq: the path of %s has %d bytes, a unix socket's has at most %d: choose a shorter directory", endpoint, len(rest), maxIPCPath)
		}
		return nil
	case ok && scheme == "tcp":
		host, _, err := net.SplitHostPort(rest)
		if err != nil {
			return fmt.Errorf("mq: endpoint %s: %w", endpoint, err)
		}
		if ip := net.ParseIP(host); curve == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("mq: %s can be reached from other hosts, so it needs CURVE keys: make them with `prefillonly keygen`", endpoint)
		}
		return nil
	}
	return fmt.Errorf("mq: endpoint %q is neither ipc:///path nor tcp://host:port", endpoint)
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
