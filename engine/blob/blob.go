// Package blob passes bytes between processes by name: the process that made them keeps them in a Store
// until it releases them, and others read them with a Reader.
//
// The blobs of a Store are in one memfd, in slots that are used again. On one host its readers are given the
// memfd over a unix socket once, and then read from it without its owner, with pread: so neither a blob that is
// released meanwhile nor memory that is not there does more than fail a read, and the kernel frees everything
// with the last process. Readers of other hosts ask the Store for bytes over TLS. A name tells where its Store
// is, by which key to know it, and a secret of the blob's own: whoever was told a name may read that blob.
package blob

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// The errors that say what is wrong with a blob; they come wrapped, with the figures.
var (
	// ErrFull says that a Store has no room for a blob now.
	ErrFull = errors.New("no room for a blob")
	// ErrGone says that a blob was released, or that the process that held it has ended.
	ErrGone = errors.New("the blob is gone")
	// ErrAway says that the process that holds a blob does not answer.
	ErrAway = errors.New("the blob cannot be reached")
	// ErrSize says that a blob has another size than its reader was told.
	ErrSize = errors.New("the blob has another size")
	// ErrName says that a name is none of a blob.
	ErrName = errors.New("not the name of a blob")

	errReleased = fmt.Errorf("%w: it was released", ErrGone)
)

// name is what a blob's name says.
type name struct {
	place  place
	offset int64 // of its slot in the store's memory
	secret secret
}

// secret is drawn for each blob; all 0 is none's.
type secret [16]byte

// place is where a store is: by the socket of that name on this host, or at an address.
type place struct {
	store   string // 16 hexadecimal digits, drawn at each start
	key     string // with address: the hash of the store's certificate, in base64
	address string // HOST:PORT
}

// maxName is the longest name, in bytes.
const maxName = 512

// form is STORE/OFFSET/SECRET, or KEY@HOST:PORT/OFFSET/SECRET.
var form = regexp.MustCompile(`^(?:([0-9a-f]{16})|([\w-]{43})@([^/@\s]+:[0-9]{1,5}))/([0-9a-f]{1,15})/([0-9a-f]{32})$`)

func (n name) String() string {
	where := n.place.store
	if n.place.address != "" {
		where = n.place.key + "@" + n.place.address
	}
	return where + "/" + strconv.FormatInt(n.offset, 16) + "/" + hex.EncodeToString(n.secret[:])
}

// parseName reads a name, which is in the one form that String writes.
func parseName(text string) (name, error) {
	part := form.FindStringSubmatch(text[:min(len(text), maxName+1)])
	if len(text) > maxName || part == nil {
		return name{}, fmt.Errorf("%w: %d bytes that are not of the form PLACE/OFFSET/SECRET", ErrName, len(text))
	}
	n := name{place: place{store: part[1], key: part[2], address: part[3]}}
	n.offset, _ = strconv.ParseInt(part[4], 16, 64)
	_, _ = hex.Decode(n.secret[:], []byte(part[5]))
	if n.secret == (secret{}) || n.String() != text {
		return name{}, fmt.Errorf("%w: an offset or a secret that no store writes", ErrName)
	}
	return n, nil
}
