// Package apikey knows a server's API keys: which tokens are one, whose prompts may be seen to be in the
// prefix cache by whom, and who may change what the server serves.
package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// The ways to share the prefix cache.
const (
	// IsolateKeys lets requests read what requests of the same key left in the cache, or of one of its group.
	IsolateKeys = "key"
	// IsolateNone lets all requests share it, but for the cache_salt that they name.
	IsolateNone = "none"
)

// Ring holds the keys. A nil Ring, or one of no keys, is of a server that asks for none. It is safe for
// concurrent use.
type Ring struct {
	keys   [][sha256.Size]byte
	owners []Owner
}

// Owner is on whose behalf a request is made: the holders of a group's keys, or of one key without a group.
// The zero value is everybody, where all share the cache.
type Owner struct {
	domain string
	holder string // as domain, but never empty where there are keys
	admin  bool
}

// NewRing makes a Ring of entries and of a file's lines; without either it is empty. Isolation is one of the constants. It does
// nothing while all keys are of one group, or there is but one.
func NewRing(entries []string, file, isolation string) (*Ring, error) {
	keys, err := readKeys(entries, file)
	if err != nil {
		return nil, err
	}
	r := &Ring{}
	domains := map[string]bool{}
	owners := map[string]Owner{}
	for _, k := range keys {
		owner := k.owner()
		if other, twice := owners[k.token]; twice && other != owner {
			return nil, fmt.Errorf("%s: the key is listed before with another group or mark; a key is of one group", k.place)
		}
		owners[k.token], domains[owner.domain] = owner, true
		r.keys = append(r.keys, sha256.Sum256([]byte(k.token)))
		r.owners = append(r.owners, owner)
	}
	if isolation != IsolateKeys && isolation != IsolateNone {
		return nil, errors.New("the isolation of the prefix cache is " + isolation + "; want key or none")
	}
	if isolation == IsolateNone || len(domains) < 2 {
		for i := range r.owners {
			r.owners[i].domain = ""
		}
	}
	return r, nil
}

// Empty says that no key is asked for.
func (r *Ring) Empty() bool { return r == nil || len(r.keys) == 0 }

// HasAdmin says whether a key is an admin's.
func (r *Ring) HasAdmin() bool {
	return r != nil && slices.ContainsFunc(r.owners, func(o Owner) bool { return o.admin })
}

// Find returns the owner of a token; ok is false if that is none of the keys. Digests are compared with those
// of all keys, in constant time.
func (r *Ring) Find(token string) (owner Owner, ok bool) {
	sum := sha256.Sum256([]byte(token))
	for i := range r.keys {
		if subtle.ConstantTimeCompare(sum[:], r.keys[i][:]) == 1 {
			owner, ok = r.owners[i], true
		}
	}
	return owner, ok
}

// ID names the owner among all, also over restarts and while a group's keys change. Neither key nor group can be read from it.
func (o Owner) ID() string {
	mac := hmac.New(sha256.New, []byte(o.holder))
	mac.Write([]byte("prefillonly owner"))
	return "owner-" + hex.EncodeToString(mac.Sum(nil)[:16])
}

// Of returns the owner of an ID; ok is false if there is none any more.
func (r *Ring) OwnerOf(id string) (owner Owner, ok bool) {
	if r.Empty() {
		return Owner{}, id == Owner{}.ID()
	}
	for _, o := range r.owners {
		if o.ID() == id {
			return o, true
		}
	}
	return Owner{}, false
}

// Admin says whether the owner may change what the server serves.
func (o Owner) Admin() bool { return o.admin }

// User is the name under which a user whom the owner names is known among all owners' users; empty where it is.
func (o Owner) User(named string) string {
	if named == "" {
		return ""
	}
	return keyedDigest(o.holder, "user "+named, named)
}

// Salt is that of the cache for a request of the owner's which names this one; either may be empty. Owners have
// no salt in common, whatever they name. It is a digest, from which neither key nor group can be read: events of
// the cache publish it.
func (o Owner) Salt(named string) string { return keyedDigest(o.domain, named, named) }

// keyedDigest is what of makes of text; nothing makes otherwise of it.
func keyedDigest(of, text, otherwise string) string {
	if of == "" {
		return otherwise
	}
	mac := hmac.New(sha256.New, []byte(of))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
