package apikey

import (
	"strings"
	"testing"
)

func ring(t *testing.T, isolation string, entries ...string) *Ring {
	t.Helper()
	r, err := NewRing(entries, "", isolation)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func salt(t *testing.T, r *Ring, key, named string) string {
	t.Helper()
	owner, ok := r.Find(key)
	if !ok {
		t.Fatalf("%q is not found", key)
	}
	return owner.Salt(named)
}

func TestFind(t *testing.T) {
	r := ring(t, IsolateKeys, "sk-1", "  sk-2 team ", "sk-3\tteam")
	for token, want := range map[string]bool{"sk-1": true, "sk-2": true, "sk-3": true, "sk-4": false, "": false, "team": false, "sk-2 team": false} {
		if _, ok := r.Find(token); ok != want {
			t.Errorf("%q is a key: %v, want %v", token, ok, want)
		}
	}
	if !ring(t, IsolateKeys).Empty() || r.Empty() || !(*Ring)(nil).Empty() {
		t.Error("a server asks for a key exactly if it has any")
	}
}

// TestSalts: owners share a salt within a group alone, whatever cache_salt they name.
func TestSalts(t *testing.T) {
	r := ring(t, IsolateKeys, "sk-1", "sk-2 team", "sk-3 team", "team")
	if salt(t, r, "sk-2", "") != salt(t, r, "sk-3", "") || salt(t, r, "sk-2", "x") != salt(t, r, "sk-3", "x") {
		t.Error("keys of a group do not share the cache")
	}
	seen := map[string]string{}
	for _, key := range []string{"sk-1", "sk-2", "team"} {
		for _, named := range []string{"", "x", "team", "group team", "key sk-1", salt(t, r, "sk-2", ""), salt(t, r, "sk-1", "")} {
			s := salt(t, r, key, named)
			if other, taken := seen[s]; taken || s == "" || strings.Contains(s, key) {
				t.Errorf("key %q with cache_salt %q has the salt %q, as %s", key, named, s, other)
			}
			seen[s] = key + " with " + named
		}
	}
}

// TestSharedCache: nothing is salted but by the client where there is nobody to isolate, or that is not wanted.
func TestSharedCache(t *testing.T) {
	for _, r := range []*Ring{
		ring(t, IsolateNone, "a", "b other"), ring(t, IsolateKeys, "a"), ring(t, IsolateKeys, "a team", "b team"),
	} {
		if salt(t, r, "a", "") != "" || salt(t, r, "a", "x") != "x" {
			t.Errorf("salts %q and %q", salt(t, r, "a", ""), salt(t, r, "a", "x"))
		}
	}
}

// TestUsersOfOwnersAreApart: a user whom an owner names is none of another owner's, isolated cache or not, nor a salt.
func TestUsersOfOwnersAreApart(t *testing.T) {
	for _, isolation := range []string{IsolateKeys, IsolateNone} {
		r := ring(t, isolation, "a", "b", "c team", "d team")
		user := map[string]string{}
		for _, key := range []string{"a", "b", "c", "d"} {
			owner, _ := r.Find(key)
			user[key] = owner.User("ann")
			if owner.User("") != "" || user[key] == "ann" || user[key] == owner.Salt("ann") {
				t.Errorf("%s has the users %q and %q", key, owner.User(""), user[key])
			}
		}
		if user["a"] == user["b"] || user["a"] == user["c"] || user["c"] != user["d"] {
			t.Errorf("users of owners: %v", user)
		}
	}
	if (Owner{}).User("ann") != "ann" {
		t.Error("without keys a user has another name")
	}
}

// TestAdmins: the mark makes an admin of a key, with a group or without, isolated or not, and a key of no other.
func TestAdmins(t *testing.T) {
	for _, isolation := range []string{IsolateKeys, IsolateNone} {
		r := ring(t, isolation, "a", "b @admin", "c team", "d team @admin")
		for key, want := range map[string]bool{"a": false, "b": true, "c": false, "d": true} {
			if owner, ok := r.Find(key); !ok || owner.Admin() != want {
				t.Errorf("%s, %s: found %v, admin %v", isolation, key, ok, owner.Admin())
			}
		}
		if _, ok := r.Find("@admin"); ok || !r.HasAdmin() {
			t.Error("the mark is a key, or no key is an admin's")
		}
		if salt(t, r, "c", "x") != salt(t, r, "d", "x") {
			t.Error("the mark divides a group's cache")
		}
	}
	if ring(t, IsolateKeys, "a", "b team").HasAdmin() || (*Ring)(nil).HasAdmin() {
		t.Error("an admin that there is not")
	}
}

func TestMalformedKeysAreRefused(t *testing.T) {
	for _, c := range []struct{ entries, isolation, want string }{
		{"sk", "tenant", "want key or none"},
		{"a team others", IsolateKeys, "3 words"},
		{"a team|b|a", IsolateKeys, "API key 3: the key is listed before"},
		{"a|a @admin", IsolateKeys, "API key 2: the key is listed before"},
		{"a team others @admin", IsolateKeys, "3 words"},
		{"a @root", IsolateKeys, "API key 1 has an unknown mark"},
	} {
		if _, err := NewRing(strings.Split(c.entries, "|"), "", c.isolation); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.entries, err, c.want)
		}
	}
}
