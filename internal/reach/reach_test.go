package reach

import (
	"net/netip"
	"strings"
	"testing"
)

func policy(t *testing.T, entries ...string) *Policy {
	t.Helper()
	p, err := New(entries)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// metadata is the address of most clouds' metadata, and of others', in forms that lead there.
var metadata = []string{
	"169.254.169.254", "169.254.170.2", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe",
	"2002:a9fe:a9fe::1", "fe80::1", "fe80::1%lo", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "::ffff:168.63.129.16", "ff02::1",
}

// TestReserved: no form of a reserved address is reached, as it is or as where a name leads, but by those who are trusted or where the list names its network.
func TestReserved(t *testing.T) {
	for _, address := range metadata {
		for _, p := range []*Policy{policy(t), policy(t, "0.0.0.0/0", "::/0"), policy(t, "camera.example")} {
			if p.Permit(address, false) == nil {
				t.Errorf("%v reaches %s", *p, address)
			}
			if list, err := p.permittedAddresses("camera.example", []netip.Addr{netip.MustParseAddr(address)}, false); err == nil || !strings.Contains(err.Error(), "reserved") {
				t.Errorf("%v: a name leads to %v, %v", *p, list, err)
			}
		}
		if err := policy(t).Permit(address, true); err != nil {
			t.Errorf("a trusted client does not reach %s: %v", address, err)
		}
	}
	link := policy(t, "169.254.0.0/16", "100.100.100.200")
	for address, want := range map[string]bool{"169.254.7.7": true, "::ffff:169.254.7.7": true, "100.100.100.200": true, "fe80::1": false, "10.0.0.1": false} {
		if err := link.Permit(address, false); (err == nil) != want {
			t.Errorf("a list of them reaches %s: %v", address, err)
		}
	}
}

// TestList: a list names all that is reached, by names, addresses and networks.
func TestList(t *testing.T) {
	p := policy(t, "10.1.0.0/16", " 192.0.2.7", "2001:db8::/32", "Door.example")
	for _, trusted := range []bool{false, true} {
		for address, want := range map[string]bool{
			"10.1.2.3": true, "10.2.0.1": false, "192.0.2.7": true, "::ffff:192.0.2.7": true, "192.0.2.8": false, "2001:db8::1": true, "2001:db9::1": false, "127.0.0.1": false, "::1": false,
			"door.EXAMPLE": true, "other.example": true, // where that leads decides
		} {
			if err := p.Permit(address, trusted); (err == nil) != want {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
	found := []netip.Addr{netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("::ffff:10.1.0.1")}
	if list, err := p.permittedAddresses("other.example", found, false); err != nil || len(list) != 1 || list[0].String() != "10.1.0.1" {
		t.Errorf("of two addresses %v may be reached, %v", list, err)
	}
	if list, err := p.permittedAddresses("door.example", found, false); err != nil || len(list) != 2 {
		t.Errorf("of a host of the list %v may be reached, %v", list, err)
	}
	if err := policy(t, "door.example").Permit("other.example", false); err == nil {
		t.Error("DNS is asked for a host that no list of names has")
	}
	for _, host := range []string{"10.0.0.1", "192.168.1.2", "127.0.0.1", "::1", "8.8.8.8", "camera"} {
		if err := policy(t).Permit(host, false); err != nil {
			t.Errorf("without a list: %v", err)
		}
	}
}

// TestNames: what a resolver may take for an address in another form is no name.
func TestNames(t *testing.T) {
	for text, want := range map[string]bool{
		"camera": true, "a-b.c_d.example": true, "3com.example": true, "4x": true, "0xcafe.example": true,
		"": false, ".": false, "a..b": false, "a.": false, "2852039166": false, "0xa9fea9fe": false, "0xA9.0xfe.0xa9.0xfe": false, "169.254.43518": false, "0251.0376.0251.0376": false, "camera.1": false, "0x": false,
		"a b": false, "a@b": false, "a#b": false, "ä": false, "[::1]": false, strings.Repeat("a", 64): false, strings.Repeat("a.", 127) + "a": false,
	} {
		if IsName(text) != want {
			t.Errorf("%q is a name: %t", text, !want)
		}
	}
	for _, entry := range []string{"", "rtsp://a", "10.0.0.0/33", "10.0.0", "*.example", "a:554", "::ffff:10.0.0.0/104"} {
		if _, err := New([]string{entry}); err == nil || !strings.Contains(err.Error(), entry) {
			t.Errorf("%q: %v", entry, err)
		}
	}
}
