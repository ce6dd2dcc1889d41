// Package reach says which hosts a server connects to on behalf of its clients: by a list of hosts and networks, and never by a name to what
// its operator did not mean, such as a cloud's metadata.
package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Policy is what may be reached. The zero value is everything but reserved addresses.
type Policy struct {
	names    []string // in lower case
	networks []netip.Prefix
}

// reserved are the addresses of the link and those at which clouds and hosts tell secrets or take settings.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("ff00::/8"),
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS
	netip.MustParsePrefix("fd20:ce::/32"),       // Google Cloud
}

// New makes a Policy of names of hosts, addresses and networks; none are everything but reserved addresses.
func New(entries []string) (Policy, error) {
	var p Policy
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		network, err := netip.ParsePrefix(entry)
		address, failed := netip.ParseAddr(entry)
		switch {
		case err == nil:
			if network.Addr().Is4In6() {
				return Policy{}, fmt.Errorf("%q is an IPv4 network in the form of IPv6; write it as IPv4", entry)
			}
			p.networks = append(p.networks, network.Masked())
		case failed == nil:
			address = plainAddress(address)
			p.networks = append(p.networks, netip.PrefixFrom(address, address.BitLen()))
		case IsName(entry):
			p.names = append(p.names, strings.ToLower(entry))
		default:
			return Policy{}, fmt.Errorf("invalid host %q: want a name, an address, or a network such as 10.0.0.0/8", entry)
		}
	}
	return p, nil
}

// IsName says whether a text is a name that DNS can be asked for. One that ends in a number is none: resolvers take it for an address.
func IsName(text string) bool {
	labels := strings.Split(text, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return false
		}
	}
	last := strings.ToLower(labels[len(labels)-1])
	digits, hex := strings.CutPrefix(last, "0x")
	return len(text) <= 253 && strings.Trim(last, "0123456789") != "" && !(hex && strings.Trim(digits, "0123456789abcdef") == "")
}

// Permit refuses a host as far as that can be told without asking DNS. Trusted clients reach reserved addresses, too.
func (p *Policy) Permit(host string, trusted bool) error {
	if address, err := netip.ParseAddr(host); err == nil {
		return p.permitAddress(host, address, trusted)
	}
	if !IsName(host) {
		return fmt.Errorf("invalid host %q: want a name or an address", host)
	}
	if p.isBounded() && len(p.networks) == 0 && !p.listsHost(host) {
		return fmt.Errorf("%s is not among the hosts that may be reached", host)
	}
	return nil
}

// Resolve returns the addresses of a host that may be reached, of which there is at least one. Whoever connects to these, and asks for the name
// no more, is not led elsewhere.
func (p *Policy) Resolve(ctx context.Context, host string, trusted bool) ([]netip.Addr, error) {
	if err := p.Permit(host, trusted); err != nil {
		return nil, err
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address.Unmap()}, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if failed := new(net.DNSError); errors.As(err, &failed) {
		return nil, errors.New(failed.Err) // not which server said so
	}
	if err != nil {
		return nil, err
	}
	return p.permittedAddresses(host, found, trusted)
}

// permittedAddresses are those of a host's addresses that may be reached.
func (p *Policy) permittedAddresses(host string, found []netip.Addr, trusted bool) (list []netip.Addr, err error) {
	for _, address := range found {
		refused := p.permitAddress(host, address, trusted)
		if refused == nil {
			list = append(list, address.Unmap())
		} else if err == nil {
			err = refused
		}
	}
	switch {
	case len(list) > 0:
		return list, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	return nil, fmt.Errorf("%s has no address", host)
}

// permitAddress refuses an address of a host.
func (p *Policy) permitAddress(host string, address netip.Addr, trusted bool) error {
	address = plainAddress(address)
	within := func(n netip.Prefix) bool { return n.Contains(address) }
	i := slices.IndexFunc(reserved, within)
	named := i >= 0 && slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return within(n) && n.Bits() >= reserved[i].Bits() })
	switch {
	case i >= 0 && !trusted && !named:
		return fmt.Errorf("%s is reserved for the link or for metadata", address)
	case p.isBounded() && !slices.ContainsFunc(p.networks, within) && !p.listsHost(host):
		return fmt.Errorf("%s is not among the hosts and networks that may be reached", address)
	}
	return nil
}

func (p *Policy) isBounded() bool { return len(p.names)+len(p.networks) > 0 }

func (p *Policy) listsHost(host string) bool { return slices.Contains(p.names, strings.ToLower(host)) }

// carriers are networks of IPv6 whose addresses lead to the IPv4 address in them, from a byte on.
var carriers = []struct {
	network netip.Prefix
	at      int
}{
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

// plainAddress is where an address leads: without a zone, and as IPv4 where it is that in a form of IPv6.
func plainAddress(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if address == netip.IPv6Loopback() || address == netip.IPv6Unspecified() {
		return address
	}
	for _, c := range carriers {
		if c.network.Contains(address) {
			bytes := address.As16()
			return netip.AddrFrom4([4]byte(bytes[c.at : c.at+4]))
		}
	}
	return address
}
