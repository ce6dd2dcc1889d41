// Package apikey knows a server's API keys: which tokens are one, and whose prompts may be seen to be in the
// prefix cache by whom.
package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
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
type Owner struct{ domain string }

// NewRing makes a Ring of entries of the form "KEY" or "KEY GROUP". Isolation is one of the constants. It does
// nothing while all keys are of one group, or there is but one.
func NewRing(entries []string, isolation string) (*Ring, error) {
	r := &Ring{}
	domains := map[string]bool{}
	groups := map[string]string{}
	for i, entry := range entries {
		words := strings.Fields(entry)
		if len(words) < 1 || len(words) > 2 {
			return nil, fmt.Errorf("API key %d has %d words; an entry is KEY, or KEY GROUP for keys that share the prefix cache", i+1, len(words))
		}
		domain := "key " + words[0]
		if len(words) == 2 {
			domain = "group " + words[1]
		}
		if other, twice := groups[words[0]]; twice && other != domain {
			return nil, fmt.Errorf("API key %d is listed before with another group; a key is of one group", i+1)
		}
		groups[words[0]], domains[domain] = domain, true
		r.keys = append(r.keys, sha256.Sum256([]byte(words[0])))
		r.owners = append(r.owners, Owner{domain})
	}
	if isolation != IsolateKeys && isolation != IsolateNone {
		return nil, errors.New("the isolation of the prefix cache is " + isolation + "; want key or none")
	}
	if isolation == IsolateNone || len(domains) < 2 {
		clear(r.owners)
	}
	return r, nil
}

// Empty says that no key is asked for.
func (r *Ring) Empty() bool { return r == nil || len(r.keys) == 0 }

// Find returns the owner of a token; ok is false if that is none of the keys. Digests are compared with those
// of all keys, in constant time.
func (r *Ring) Find(token string) (owner Owner, ok bool) {
	digest := sha256.Sum256([]byte(token))
	for i := range r.keys {
		if subtle.ConstantTimeCompare(digest[:], r.keys[i][:]) == 1 {
			owner, ok = r.owners[i], true
		}
	}
	return owner, ok
}

// Salt is that of the cache for a request of the owner's which names this one; either may be empty. Owners have
// no salt in common, whatever they name. It is a digest, from which neither key nor group can be read: events of
// the cache publish it.
func (o Owner) Salt(named string) string {
	if o.domain == "" {
		return named
	}
	mac := hmac.New(sha256.New, []byte(o.domain))
	mac.Write([]byte(named))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
